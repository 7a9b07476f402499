package searchtest

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Coverage counts the clauses and parameters of queries and how much they matched.
type Coverage struct {
	documents int
	reference string
	queries   int
	selective int
	none      int
	uses      map[string]*counts
}

type counts struct{ queries, selective, hits int }

// NewCoverage returns a Coverage for queries over a number of documents, compared with a reference.
func NewCoverage(documents int, reference string) *Coverage {
	return &Coverage{documents: documents, reference: reference, uses: map[string]*counts{}}
}

// Add counts a query with its number of hits. A query is selective if it matches from one to half of the documents.
func (c *Coverage) Add(q Query, total int) {
	selective := total >= 1 && 2*total <= c.documents
	c.queries++
	if selective {
		c.selective++
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
		if selective {
			n.selective++
		}
	}
}

// Selective returns the share of selective queries, in percent.
func (c *Coverage) Selective() float64 {
	return 100 * float64(c.selective) / float64(max(c.queries, 1))
}

// Rare returns the names that occur, but in fewer than n selective queries.
func (c *Coverage) Rare(n int) []string {
	var out []string
	for _, u := range sorted(c.uses) {
		if c.uses[u].selective < n {
			out = append(out, fmt.Sprintf("%s (%d)", u, c.uses[u].selective))
		}
	}
	return out
}

// Missing returns the names that no query used, neither themselves nor by a longer name ("range.format" for "range").
func (c *Coverage) Missing(names []string) []string {
	var out []string
	for _, name := range names {
		if !slices.ContainsFunc(
			sorted(c.uses), func(u string) bool { return u == name || strings.HasPrefix(u, name+".") },
		) {
			out = append(out, name)
		}
	}
	return out
}

// Print writes a table with a row for each clause and parameter.
func (c *Coverage) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "clause or parameter\tqueries\t1 to half\thits\tjudge\n")
	for _, u := range sorted(c.uses) {
		n := c.uses[u]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\n", u, n.queries, n.selective, n.hits, c.reference)
	}
	fmt.Fprintf(
		t,
		"all\t%d\t%d (%.0f %%)\t%d without a match\t%s\n",
		c.queries,
		c.selective,
		c.Selective(),
		c.none,
		c.reference,
	)
	return t.Flush()
}
