package evaluate

import (
	"fmt"
	"io"
	"math"
	"slices"

	"muster/discovery-worker/internal/evidence"
)

// Results are the measures of an evaluation. They are stored next to the page that shows them, and
// contain all it shows.
type Results struct {
	// Model is the version of the evidence model. Worlds are the seeds of the synthetic data.
	Model  string   `json:"model"`
	Worlds []uint64 `json:"worlds"`
	// People is the number of people for each seed, Questions the maximum number sampled.
	People    int `json:"people"`
	Questions int `json:"questions"`
	// Population is evidence.Prior's.
	Population float64 `json:"population"`
	Answers    int     `json:"answers"`
	// Found is the number of answers that name a candidate, returned or not.
	Found     int        `json:"found"`
	Measures  []Measure  `json:"measures"`
	Bands     []Band     `json:"bands"`
	Baselines []Baseline `json:"baselines"`
	// Bins are 15 bins of equal mass of the candidates found, by ascending confidence.
	Bins []Bin `json:"bins"`
	// Spread is a histogram of the confidences found, in 20 bins.
	Spread []int `json:"spread"`
}

// Measure is a figure with its 95% bootstrap interval.
type Measure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Band is a class of answers. Recall is nil if missed profiles have no class.
type Band struct {
	Name      string   `json:"name"`
	Precision *float64 `json:"precision"` // null if none was returned
	Recall    *float64 `json:"recall"`
	Of        int      `json:"of"`
}

// Baseline is the result of a simple rule, for profiles without a link.
type Baseline struct {
	Name      string  `json:"name"`
	Precision float64 `json:"precision"`
	Recall    float64 `json:"recall"`
}

// Bin holds the mean confidence of some answers and the share of correct ones.
type Bin struct {
	Confidence float64 `json:"confidence"`
	Right      float64 `json:"right"`
	Answers    int     `json:"answers"`
}

// Summarize measures answers, with intervals from 200 bootstrap samples of the questions.
func Summarize(answers []Answer) *Results {
	list := outcomes(answers)
	r := &Results{Answers: len(answers), Found: len(list), Measures: measureAll(answers), Bands: measureBands(answers),
		Baselines: measureBaselines(answers), Spread: make([]int, 20)}
	for _, b := range equalMassBins(list) {
		r.Bins = append(r.Bins, Bin{b.p, b.right, b.n})
	}
	for _, o := range list {
		r.Spread[min(int(o.p*20), 19)]++
	}
	return r
}

func measureAll(answers []Answer) []Measure {
	type figure struct {
		name    string
		compute func([]Answer) float64
	}
	var figures []figure
	for _, class := range []struct {
		name   string
		linked bool
	}{{"linked", true}, {"without a link", false}} {
		figures = append(figures,
			figure{class.name + ": precision", func(l []Answer) float64 {
				return countOutcomes(l, returnedIdentity, class.linked).Precision()
			}},
			figure{class.name + ": recall", func(l []Answer) float64 {
				return countOutcomes(l, returnedIdentity, class.linked).Recall()
			}},
			figure{class.name + ": F1", func(l []Answer) float64 {
				return countOutcomes(l, returnedIdentity, class.linked).F1()
			}})
	}
	figures = append(figures,
		figure{"Brier", func(l []Answer) float64 { b, _, _ := calibrationScores(l); return b }},
		figure{"ECE", func(l []Answer) float64 { _, e, _ := calibrationScores(l); return e }},
		figure{"AUROC", func(l []Answer) float64 { _, _, a := calibrationScores(l); return a }})
	samples := bootstrap(answers, 200)
	var out []Measure
	for _, f := range figures {
		values := make([]float64, 0, len(samples))
		for _, s := range samples {
			values = append(values, f.compute(s))
		}
		slices.Sort(values)
		out = append(out, Measure{f.name, f.compute(answers), values[len(values)/40],
			values[len(values)-1-len(values)/40]})
	}
	return out
}

// measureBands measures answers without a link by name frequency and script, and linked ones by
// kind of link.
func measureBands(answers []Answer) []Band {
	var out []Band
	for _, b := range []struct {
		name   string
		linked bool
		match  func(*Answer) bool
	}{
		{"without a link, no namesake", false, func(a *Answer) bool { return a.Namesakes == 0 }},
		{"without a link, 1 to 4 namesakes", false, func(a *Answer) bool {
			return a.Namesakes >= 1 && a.Namesakes <= 4
		}},
		{"without a link, 5 and more", false, func(a *Answer) bool { return a.Namesakes >= 5 }},
		{"without a link, Latin names", false, func(a *Answer) bool { return a.Question.Script == "latin" }},
		{"without a link, other scripts", false, func(a *Answer) bool { return a.Question.Script != "latin" }},
		{"mutual link", true, func(a *Answer) bool { return a.Link == evidence.Mutual }},
		{"one-way link", true, func(a *Answer) bool { return a.Link != evidence.Mutual && !a.Via }},
		{"by a linked profile's links", true, func(a *Answer) bool { return a.Via }},
	} {
		var selected []Answer
		for i := range answers {
			if b.match(&answers[i]) {
				selected = append(selected, answers[i])
			}
		}
		c := countOutcomes(selected, returnedIdentity, b.linked)
		band := Band{Name: b.name, Precision: finiteOrNil(c.Precision()), Of: c.Right + c.Wrong}
		if !b.linked {
			band.Recall, band.Of = finiteOrNil(c.Recall()), c.Right+c.Missed
		}
		out = append(out, band)
	}
	return out
}

// finiteOrNil returns nil for NaN, which JSON cannot represent.
func finiteOrNil(f float64) *float64 {
	if math.IsNaN(f) {
		return nil
	}
	return &f
}

func measureBaselines(answers []Answer) []Baseline {
	var out []Baseline
	for _, b := range []struct {
		name   string
		answer func(*Answer) string
	}{
		{"same user name", func(a *Answer) string { return a.SameUsername }},
		{"same name", func(a *Answer) string { return a.SameName }},
		{"same name and user name", func(a *Answer) string { return a.Both }},
	} {
		var c Counts
		for i := range answers {
			a := &answers[i]
			if a.Question.Linked[a.Platform] {
				continue
			}
			truth, identity := a.Question.Truth[a.Platform], b.answer(a)
			switch {
			case identity != "" && identity == truth:
				c.Right++
			case truth != "":
				c.Missed++
			}
			if identity != "" && identity != truth {
				c.Wrong++
			}
		}
		out = append(out, Baseline{b.name, c.Precision(), c.Recall()})
	}
	return out
}

// Report prints the results.
func (r *Results) Report(out io.Writer) error {
	printf := func(format string, args ...any) error {
		if _, err := fmt.Fprintf(out, format, args...); err != nil {
			return fmt.Errorf("report: %w", err)
		}
		return nil
	}
	for _, m := range r.Measures {
		if err := printf("%-28s %6.3f  [%.3f, %.3f]\n", m.Name, m.Value, m.Low, m.High); err != nil {
			return err
		}
	}
	for _, b := range r.Bands {
		if err := printf("%-36s precision %s", b.Name, formatFigure(b.Precision)); err != nil {
			return err
		}
		if b.Recall != nil {
			if err := printf(" recall %s", formatFigure(b.Recall)); err != nil {
				return err
			}
		}
		if err := printf(" of %d\n", b.Of); err != nil {
			return err
		}
	}
	for _, b := range r.Baselines {
		if err := printf("baseline without a link, %-24s precision %.3f recall %.3f\n", b.Name, b.Precision,
			b.Recall); err != nil {
			return err
		}
	}
	return nil
}

func formatFigure(f *float64) string {
	if f == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *f)
}
