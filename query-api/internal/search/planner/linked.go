package planner

import (
	"strings"

	"muster/query-api/internal/search/algebra"
	"muster/schemas/readmodel"
)

// Linked reports whether a leaf is about a field of a linked account.
func (l Leaf) Linked() bool { return fieldOf(l.Node).Linked }

// fieldOf returns the field of a leaf.
func fieldOf(n algebra.Node) algebra.Field {
	switch n := n.(type) {
	case algebra.Term:
		return n.Field
	case algebra.Set:
		return n.Field
	case algebra.Phrase:
		return n.Field
	case algebra.Range:
		return n.Field
	case algebra.Pattern:
		return n.Field
	case algebra.Exists:
		return n.Field
	}
	return algebra.Field{}
}

// rowsOf returns the FROM and WHERE clauses that select the rows of parts with the columns of a field, and a condition
// on them. parts is a condition that begins with _part. The rows of linked accounts are found by the keys of the
// people of the parts.
func rowsOf(f readmodel.SearchField, parts, condition string) string {
	if !f.Linked {
		return " FROM " + table + " WHERE " + parts + " AND " + condition
	}
	columns := []string{f.Column}
	if f.Type == readmodel.SearchText {
		columns = append(columns, f.Tokens())
	}
	const key = hashColumn + ", " + idColumn
	values := strings.Join(columns, ", ")
	return " FROM (SELECT _part, _part_offset, " + values + " FROM (SELECT _part, _part_offset, " + key + " FROM " +
		table + " WHERE " + parts + " AND " + hashColumn + " GLOBAL IN (SELECT " + hashColumn + " FROM " + linkedTable +
		" WHERE " + condition + ")) AS rows INNER JOIN (SELECT " + key + ", " + values + " FROM " + linkedTable +
		" FINAL WHERE " + condition + ") AS accounts USING (" + key + ")) WHERE 1"
}

// newestOf returns the FROM and WHERE clauses that select the newest rows of people with the columns of a field.
func newestOf(f readmodel.SearchField) string {
	if f.Linked {
		return " FROM " + linkedTable + " FINAL WHERE 1"
	}
	return " FROM " + table + " FINAL WHERE NOT deleted"
}
