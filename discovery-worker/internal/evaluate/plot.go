package evaluate

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Plot writes the reliability diagram of the results as SVG: the share of correct answers over the
// mean confidence in 15 bins of equal mass, with 95% intervals (normal approximation of the
// binomial), and the distribution of the confidences below.
func (r *Results) Plot(out io.Writer) error {
	const size, left, top = 360.0, 56.0, 40.0
	var b strings.Builder
	x := func(p float64) float64 { return left + p*size }
	y := func(p float64) float64 { return top + (1-p)*size }
	b.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" width="450" height="540" viewBox="0 0 450 540" ` +
		`font-family="sans-serif" font-size="12">` + "\n")
	b.WriteString(`<rect width="450" height="540" fill="white"/>` + "\n")
	fmt.Fprintf(&b, `<text x="%g" y="22" font-size="14">%s</text>`+"\n", left, html.EscapeString(r.title()))
	for i := 0; i <= 5; i++ {
		p := float64(i) / 5
		fmt.Fprintf(&b, `<path d="M%.1f %.1fH%.1fM%.1f %.1fV%.1f" stroke="#ddd"/>`, x(0), y(p), x(1), x(p), y(0), y(1))
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="end">%.1f</text><text x="%.1f" y="%.1f" `+
			`text-anchor="middle">%.1f</text>`+"\n", x(0)-6, y(p)+4, p, x(p), y(0)+16, p)
	}
	fmt.Fprintf(&b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="#999" stroke-dasharray="4 4"/>`+"\n", x(0), y(0), x(1),
		y(1))
	for _, bin := range r.Bins {
		half := 1.96 * math.Sqrt(bin.Right*(1-bin.Right)/float64(bin.Answers))
		fmt.Fprintf(&b, `<path d="M%.1f %.1fV%.1f" stroke="#36c"/><circle cx="%.1f" cy="%.1f" r="4" fill="#36c"/>`+"\n",
			x(bin.Confidence), y(max(bin.Right-half, 0)), y(min(bin.Right+half, 1)), x(bin.Confidence), y(bin.Right))
	}
	highest := max(1, slices.Max(r.Spread))
	for i, n := range r.Spread {
		h := 60 * float64(n) / float64(highest)
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#9bd"/>`,
			x(float64(i)/float64(len(r.Spread)))+1, 500-h, size/float64(len(r.Spread))-2, h)
	}
	fmt.Fprintf(&b, "\n"+`<text x="%.1f" y="%.1f" text-anchor="middle">confidence</text>`, x(0.5), y(0)+34)
	fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle" transform="rotate(-90 16 %.1f)">right</text>`, 16.0,
		y(0.5), y(0.5))
	fmt.Fprintf(&b, `<text x="%.1f" y="520">%d answers</text>`+"\n</svg>\n", left, r.Found)
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}

// title returns the title of the diagram.
func (r *Results) title() string {
	worlds := make([]string, len(r.Worlds))
	for i, w := range r.Worlds {
		worlds[i] = strconv.FormatUint(w, 10)
	}
	return "Model " + r.Model + ", worlds " + strings.Join(worlds, ",")
}
