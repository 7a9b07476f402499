package histories

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"muster/schemas/event"
)

// Outcome is the answer to a question.
type Outcome struct {
	Question
	// Found is the username of the profile that was returned, or "".
	Found      string
	Confidence float64
	Took       time.Duration
}

func (o Outcome) answered(at float64) bool { return o.Found != "" && o.Confidence >= at }

// Right reports whether the returned profile is the person's.
func (o Outcome) Right() bool { return o.Found != "" && o.Found == o.Profile }

// sureAt is the confidence that other endpoints require of a discovered link.
const sureAt = 0.9

// Figure is a figure with its 95% interval.
type Figure struct {
	Value, Low, High float64 // NaN: there is nothing to measure
}

func (f Figure) String() string {
	if math.IsNaN(f.Value) {
		return "-"
	}
	return fmt.Sprintf("%.3f [%.3f, %.3f]", f.Value, f.Low, f.High)
}

// ClassReport are the figures of a class.
type ClassReport struct {
	Class                       Class
	Size, Asked                 int
	Answered, Right             int // from the threshold on
	SureAnswered, SureRight     int // from 0.9 on
	Precision, Recall, SureRate Figure
}

// Bin is a bin of the reliability table.
type Bin struct{ From, To, Confidence, Right, Weight float64 }

// Report are the results of an evaluation. It contains no names.
type Report struct {
	Classes []ClassReport
	// Precision, SurePrecision and Recall are those of unlinked accounts, weighted by the sizes of
	// the classes.
	Precision, SurePrecision, Recall, SureRecall Figure
	// SureWrong is the number of wrong answers from 0.9 on for 200 accounts without a profile.
	SureWrong Figure
	// ECE and Brier are of all returned answers, weighted alike.
	ECE, Brier float64
	Bins       []Bin
	Latency    [3]time.Duration // p50, p90, p99
}

// Summarize computes the report. sizes are Data.Sizes.
func Summarize(outcomes []Outcome, sizes map[Class]int) Report {
	byClass := make(map[Class][]Outcome)
	for _, o := range outcomes {
		byClass[o.Class] = append(byClass[o.Class], o)
	}
	var r Report
	for _, class := range Classes() {
		r.Classes = append(r.Classes, summarizeClass(class, sizes[class], byClass[class]))
	}
	measure := func(list map[Class][]Outcome) [5]float64 { return weighted(list, sizes) }
	point := measure(byClass)
	samples := bootstrap(byClass, measure)
	for i, f := range []*Figure{&r.Precision, &r.SurePrecision, &r.Recall, &r.SureRecall, &r.SureWrong} {
		*f = Figure{Value: point[i], Low: math.NaN(), High: math.NaN()}
		values := slices.DeleteFunc(column(samples, i), math.IsNaN)
		if slices.Sort(values); len(values) > 0 {
			f.Low, f.High = values[len(values)/40], values[len(values)-1-len(values)/40]
		}
	}
	r.calibration(byClass, sizes)
	took := make([]time.Duration, len(outcomes))
	for i, o := range outcomes {
		took[i] = o.Took
	}
	r.Latency = quantiles(took)
	return r
}

// quantiles returns p50, p90 and p99; 0 of nothing. It sorts took.
func quantiles(took []time.Duration) (out [3]time.Duration) {
	if slices.Sort(took); len(took) > 0 {
		for i, q := range []float64{0.5, 0.9, 0.99} {
			out[i] = took[int(q*float64(len(took)-1))]
		}
	}
	return out
}

func column(samples [][5]float64, i int) []float64 {
	out := make([]float64, len(samples))
	for k, s := range samples {
		out[k] = s[i]
	}
	return out
}

func summarizeClass(class Class, size int, list []Outcome) ClassReport {
	c := ClassReport{Class: class, Size: size, Asked: len(list)}
	has := 0
	for _, o := range list {
		if o.Profile != "" {
			has++
		}
		if o.answered(event.DiscoveryThreshold) {
			c.Answered++
			if o.Right() {
				c.Right++
			}
		}
		if o.answered(sureAt) {
			c.SureAnswered++
			if o.Right() {
				c.SureRight++
			}
		}
	}
	c.Precision, c.Recall = wilson(c.Right, c.Answered), wilson(c.Right, has)
	c.SureRate = wilson(c.SureRight, c.SureAnswered)
	return c
}

// wilson returns a share with its Wilson interval.
func wilson(k, n int) Figure {
	if n == 0 {
		return Figure{math.NaN(), math.NaN(), math.NaN()}
	}
	const z = 1.96
	p, m := float64(k)/float64(n), float64(n)
	center := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z * math.Sqrt(p*(1-p)/m+z*z/(4*m*m)) / (1 + z*z/m)
	return Figure{p, max(0, center-half), min(1, center+half)}
}

// weighted returns precision, precision from 0.9 on, recall, recall from 0.9 on, and the wrong
// answers from 0.9 on for 200 accounts without a profile. Linked accounts do not count.
func weighted(byClass map[Class][]Outcome, sizes map[Class]int) [5]float64 {
	var right, answered, sureRight, sureAnswered, has, without, sureWrong float64
	for class, list := range byClass {
		if class == Linked || len(list) == 0 {
			continue
		}
		w := float64(sizes[class]) / float64(len(list))
		for _, o := range list {
			if o.Profile != "" {
				has += w
			} else if without += w; o.answered(sureAt) {
				sureWrong += w
			}
			if o.answered(event.DiscoveryThreshold) {
				answered += w
				if o.Right() {
					right += w
				}
			}
			if o.answered(sureAt) {
				sureAnswered += w
				if o.Right() {
					sureRight += w
				}
			}
		}
	}
	return [5]float64{right / answered, sureRight / sureAnswered, right / has, sureRight / has,
		200 * sureWrong / without}
}

// bootstrap measures 500 samples of the questions of each class.
func bootstrap(byClass map[Class][]Outcome, measure func(map[Class][]Outcome) [5]float64) [][5]float64 {
	r := rand.New(rand.NewPCG(3, 5)) //nolint:gosec // repeatable intervals
	var out [][5]float64
	for range 500 {
		sample := make(map[Class][]Outcome, len(byClass))
		for _, class := range Classes() {
			list := byClass[class]
			drawn := make([]Outcome, len(list))
			for i := range list {
				drawn[i] = list[r.IntN(len(list))]
			}
			sample[class] = drawn
		}
		out = append(out, measure(sample))
	}
	return out
}

// calibration computes ECE over ten bins of equal width, of which answers below the threshold have
// none, and the Brier score.
func (r *Report) calibration(byClass map[Class][]Outcome, sizes map[Class]int) {
	const bins = 10
	var sums [bins]Bin
	total := 0.0
	for class, list := range byClass {
		for _, o := range list {
			if !o.answered(event.DiscoveryThreshold) {
				continue
			}
			w := float64(sizes[class]) / float64(len(list))
			right := 0.0
			if o.Right() {
				right = 1
			}
			b := &sums[min(int(o.Confidence*bins), bins-1)]
			b.Weight += w
			b.Confidence += w * o.Confidence
			b.Right += w * right
			total += w
			r.Brier += w * (o.Confidence - right) * (o.Confidence - right)
		}
	}
	for i, b := range sums {
		if b.Weight == 0 {
			continue
		}
		r.ECE += math.Abs(b.Confidence-b.Right) / total
		r.Bins = append(r.Bins, Bin{float64(i) / bins, float64(i+1) / bins, b.Confidence / b.Weight,
			b.Right / b.Weight, b.Weight})
	}
	r.Brier /= total
}

// Print writes the report.
func (r Report) Print(out io.Writer) error {
	var err error
	printf := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(out, format, args...)
		}
	}
	printf("%-30s %7s %6s  %-22s %-22s %s\n", "class", "people", "asked", "right of answered", "recall",
		"right of answered at 0.9")
	for _, c := range r.Classes {
		printf("%-30s %7d %6d  %-22s %-22s %s\n", c.Class, c.Size, c.Asked, ratio(c.Right, c.Answered, c.Precision),
			c.Recall, ratio(c.SureRight, c.SureAnswered, c.SureRate))
	}
	printf("\nwithout a link, weighted by the sizes of the classes:\n")
	printf("  precision at %.2f  %v\n  recall at %.2f     %v\n  precision at 0.9   %v\n  recall at 0.9      %v\n",
		event.DiscoveryThreshold, r.Precision, event.DiscoveryThreshold, r.Recall, r.SurePrecision, r.SureRecall)
	printf("  wrong at 0.9 for 200 accounts without a profile  %v\n", r.SureWrong)
	printf("\nall answers: ECE %.3f, Brier score %.3f\n", r.ECE, r.Brier)
	printf("%-12s %8s %8s %8s\n", "confidence", "mean", "right", "weight")
	for _, b := range r.Bins {
		printf("%.1f to %.1f   %8.3f %8.3f %8.0f\n", b.From, b.To, b.Confidence, b.Right, b.Weight)
	}
	printf("\n%s\n", FormatLatency(r.Latency))
	if err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}

// FormatLatency returns the line of a report with latencies.
func FormatLatency(l [3]time.Duration) string {
	return fmt.Sprintf("latency: p50 %v, p90 %v, p99 %v", l[0].Round(time.Millisecond), l[1].Round(time.Millisecond),
		l[2].Round(time.Millisecond))
}

func ratio(k, n int, f Figure) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d %.3f [%.2f, %.2f]", k, n, f.Value, f.Low, f.High)
}
