package searchtest

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Coverage counts what queries used and how much they matched.
type Coverage struct {
	documents int
	judge     string
	queries   int
	telling   int
	none      int
	uses      map[string]*counts
}

type counts struct{ queries, telling, hits int }

// NewCoverage counts queries over a number of documents that a judge answers.
func NewCoverage(documents int, judge string) *Coverage {
	return &Coverage{documents: documents, judge: judge, uses: map[string]*counts{}}
}

// Add counts a query with its number of hits. A query is telling when it matches one person up to half of them.
func (c *Coverage) Add(q Query, total int) {
	telling := total >= 1 && 2*total <= c.documents
	c.queries++
	if telling {
		c.telling++
	}
	if total == 0 {
		c.none++
	}
	for _, u := range q.Uses {
		n := c.uses[u]
		if n == nil {
			n = &counts{}
			c.uses[u] = n
		}
		n.queries++
		n.hits += total
		if telling {
			n.telling++
		}
	}
}

// Telling is the share of telling queries, in percent.
func (c *Coverage) Telling() float64 { return 100 * float64(c.telling) / float64(max(c.queries, 1)) }

// Rare lists what occurs in fewer than n telling queries, of what occurs at all.
func (c *Coverage) Rare(n int) []string {
	var out []string
	for _, u := range sorted(c.uses) {
		if c.uses[u].telling < n {
			out = append(out, fmt.Sprintf("%s (%d)", u, c.uses[u].telling))
		}
	}
	return out
}

// Missing lists the names that no query used, itself or as a kind of what is named ("range.format" of "range").
func (c *Coverage) Missing(names []string) []string {
	var out []string
	for _, name := range names {
		if !slices.ContainsFunc(sorted(c.uses), func(u string) bool { return u == name || strings.HasPrefix(u, name+".") }) {
			out = append(out, name)
		}
	}
	return out
}

// Print writes a line for each clause and parameter.
func (c *Coverage) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "clause or parameter\tqueries\t1 to half\thits\tjudge\n")
	for _, u := range sorted(c.uses) {
		n := c.uses[u]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\n", u, n.queries, n.telling, n.hits, c.judge)
	}
	fmt.Fprintf(t, "all\t%d\t%d (%.0f %%)\t%d found nobody\t%s\n", c.queries, c.telling, c.Telling(), c.none, c.judge)
	return t.Flush()
}
