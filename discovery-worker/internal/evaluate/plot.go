package evaluate

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Plot writes the reliability diagram as SVG: the share of right answers over the
// mean confidence in 15 bins of equal mass, with 95% by the normal approximation
// of the binomial, and how the confidences are spread below.
func Plot(out io.Writer, title string, answers []Answer) error {
	const size, left, top = 360.0, 56.0, 40.0
	list := outcomes(answers)
	var b strings.Builder
	x := func(p float64) float64 { return left + p*size }
	y := func(p float64) float64 { return top + (1-p)*size }
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" width="450" height="540" viewBox="0 0 450 540" font-family="sans-serif" font-size="12">` + "\n")
	b.WriteString(`<rect width="450" height="540" fill="white"/>` + "\n")
	fmt.Fprintf(&b, `<text x="%g" y="22" font-size="14">%s</text>`+"\n", left, title)
	for i := 0; i <= 5; i++ {
		p := float64(i) / 5
		fmt.Fprintf(&b, `<path d="M%.1f %.1fH%.1fM%.1f %.1fV%.1f" stroke="#ddd"/>`, x(0), y(p), x(1), x(p), y(0), y(1))
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="end">%.1f</text><text x="%.1f" y="%.1f" text-anchor="middle">%.1f</text>`+"\n", x(0)-6, y(p)+4, p, x(p), y(0)+16, p)
	}
	fmt.Fprintf(&b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="#999" stroke-dasharray="4 4"/>`+"\n", x(0), y(0), x(1), y(1))
	for _, bin := range binsOf(list) {
		half := 1.96 * math.Sqrt(bin.right*(1-bin.right)/float64(bin.n))
		fmt.Fprintf(&b, `<path d="M%.1f %.1fV%.1f" stroke="#36c"/><circle cx="%.1f" cy="%.1f" r="4" fill="#36c"/>`+"\n",
			x(bin.p), y(max(bin.right-half, 0)), y(min(bin.right+half, 1)), x(bin.p), y(bin.right))
	}
	counts := make([]int, 20)
	most := 1
	for _, o := range list {
		i := min(int(o.p*20), 19)
		counts[i]++
		most = max(most, counts[i])
	}
	for i, n := range counts {
		h := 60 * float64(n) / float64(most)
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#9bd"/>`, x(float64(i)/20)+1, 500-h, size/20-2, h)
	}
	fmt.Fprintf(&b, "\n"+`<text x="%.1f" y="%.1f" text-anchor="middle">confidence</text>`, x(0.5), y(0)+34)
	fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle" transform="rotate(-90 16 %.1f)">right</text>`, 16.0, y(0.5), y(0.5))
	fmt.Fprintf(&b, `<text x="%.1f" y="520">%d answers</text>`+"\n</svg>\n", left, len(list))
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}
