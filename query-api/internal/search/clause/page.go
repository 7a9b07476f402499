package clause

import (
	"fmt"
	"strings"

	"muster/schemas/readmodel"
)

// Page is the documentation of the language, made of the tables that decide
// what is read: fields, clauses with their parameters, limits, and what is
// refused.
func Page() string {
	var b strings.Builder
	b.WriteString(`# The query language of person search

<!-- Made by go test ./internal/search/clause -update in query-api, from the code that decides. -->

` + "`POST /v1/person/search`" + ` reads Elasticsearch's query language with the semantics of Elasticsearch 8. Everything else is
refused with the path of what is wrong; nothing is ignored but names in ` + "`_source`" + ` ([why](decisions/2026-11-23-names-in-source.md)). ` + "`POST /v1/person/search/explain`" + ` shows how a query is understood,
and of the stored terms that patterns and similar words become how many they are, not which.

## Fields

A text is searched word by word (Elasticsearch's standard analyzer); ` + "`<text>.keyword`" + fmt.Sprintf(` is the whole value, up to %d
characters. Fields of a nested path are also visible from the root, where the values of all entries are one field.

| field | type | nested path |
|---|---|---|
`, readmodel.MaxKeyword))
	types := map[readmodel.SearchType]string{
		readmodel.SearchText: "text, with `.keyword`", readmodel.SearchLong: "integer", readmodel.SearchDate: "date", readmodel.SearchBoolean: "boolean",
	}
	for _, f := range readmodel.SearchFields() {
		nested := ""
		if f.Nested != "" {
			nested = "`" + f.Nested + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Path, types[f.Type], nested)
	}
	b.WriteString("\n`_id` is the profile id as `ids`, `term`, `terms`, `match` and `exists` know it, at the root and inside of `nested`.\n\n## Clauses\n\n| clause | parameters | differs from Elasticsearch |\n|---|---|---|\n")
	for _, c := range Clauses() {
		if c.Refused != "" {
			continue
		}
		names := make([]string, len(c.Parameters))
		for i, p := range c.Parameters {
			names[i] = "`" + p.Name + "`"
		}
		notes := c.Notes
		if len(c.Without) > 0 {
			notes = strings.TrimSpace(notes + " Refused: `" + strings.Join(c.Without, "`, `") + "`.")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.Name, strings.Join(names, ", "), notes)
	}
	sorts := make([]string, 0, len(sortParameters()))
	for _, p := range sortParameters() {
		sorts = append(sorts, "`"+p.Name+"`")
	}
	fmt.Fprintf(&b, `
A parameter that is not listed is refused, `+"`_name`"+` of every clause, too. Inside of `+"`nested`"+` the fields of other objects do not exist, as in Elasticsearch.
Sort keys have %s, and `+"`nested` has `path`, `filter` and `max_children`"+`. A field that does not exist, and has an `+"`unmapped_type`"+`, does not change the order.
`+"`format`"+` is refused, since sort values are not shown, and so is a `+"`numeric_type`"+` of `+"`date_nanos`"+`. `+"`_score`"+` and `+"`_doc`"+` are keys too, and the last key is always the person.

Dates: %s (years with a sign have four to nine digits; a time may end with an offset or the name of a zone, such as
`+"`2020-01-01T13:00:00Europe/Paris`"+`), and patterns of yyyy, MM, dd, HH, mm, ss, SSS, XXX, of which what stands in brackets may be left out.
Elasticsearch's other formats are refused: times without a date (`+"`hour`, `time`"+` and so on), weeks (`+"`week_date`, `weekyear`"+`) and days of a year (`+"`ordinal_date`"+`).

## Limits

| | |
|---|---|
| depth of clauses | %d |
| clauses, those that hold others aside, each word of a text as one; a phrase without slop is one | %d |
| `+"`function_score` with `min_score`"+` in one another | %d |
| words of phrases without slop, for each of their fields | %d |
| terms | %d |
| characters of a regular expression | %d |
| terms that a fuzzy or unfinished word becomes | %d |
| bytes of a text that is analysed | %d |
| characters of a number | %d |
| values in the JSON of a query, or of its sort keys | %d |

A query whose own work takes too much time or memory is a 400 that says so, and so is one that looks for more than
8,192 words, values and patterns in their fields after words were expanded. One that is not answered before its
deadline, because words and fields that were not searched lately are read first or because other searches run, is a 503
with `+"`Retry-After`"+`: the same query may be answered when it is sent again. `+"`timeout`"+` lowers the deadline (8 s).

## Refused

| clause | why |
|---|---|
`, strings.Join(sorts, ", "), "`"+strings.Join(namedFormats(), "`, `")+"`", MaxDepth, MaxClauses, MaxLeastScores, MaxPhraseWords, MaxTerms, MaxRegexp, MaxExpansions, MaxAnalysed, MaxNumber, MaxValues)
	for _, c := range Clauses() {
		if c.Refused != "" {
			fmt.Fprintf(&b, "| `%s` | %s |\n", c.Name, c.Refused)
		}
	}
	return b.String()
}
