package readmodel

import (
	"cmp"
	"slices"
	"strconv"

	"muster/schemas/derive"
	"muster/schemas/identity"
)

// accountValues are the values of an account that are combined from its record, repositories and commits
// (MAPPING.md, section 1, "Derived values").
type accountValues struct {
	authors       []string // author names of its own commits, most frequent first
	addressKeys   []string // normalized author addresses, in the same order
	addresses     []string // as given
	languages     servedList
	derived       derive.Fields // of the record alone
	names, emails struct{ enrich, webset servedList }
	email         string // the record's email field, if set in addition to emails
}

// read reads the fields written by BuildAnswers and Renderer.appendAccountLists.
func (a *accountValues) read(f *fields) {
	a.authors, a.addressKeys, a.addresses = f.list(), f.list(), f.list()
	a.languages = f.served()
	a.derived = derive.Fields(f.unsigned()) //nolint:gosec // stored value
	a.names.enrich, a.names.webset = f.served(), f.served()
	a.emails.enrich, a.emails.webset = f.served(), f.served()
	a.email = f.text()
}

// answerValuesQuery returns a query for values of accounts that are combined from their records, repositories and
// commits: account, commits, languages and names (without those of linked records). It reads the fields in the order of
// Builds.statement and Renderer.appendAccountLists.
func answerValuesQuery(tables string) string {
	// list declares a list whose length is in the field after another one, and the position of its last item.
	list := func(name, after string) string {
		length := "toUInt32OrZero(fields[" + after + " + 1])"
		return "arraySlice(fields, " + after + " + 2, " + length + ") AS " + name + ",\n        " +
			after + " + 1 + " + length + " AS " + name + "_end"
	}
	return `SELECT user_id AS account, toUInt64OrZero(fields[network_keys_end + 3]) AS commits, languages,
        toUInt64OrZero(fields[languages_end + 2]) > length(own_names) AS is_cut,
        arraySlice(arrayDistinct(arrayConcat(own_names, if(is_cut, [], authors))), 1, ` + strconv.Itoa(MaxEntries) + `) AS names
    FROM (SELECT user_id,
        splitByChar(char(0), content) AS fields,
        ` + list("emails", "9") + `,
        ` + list("network_keys", "emails_end + 1") + `,
        ` + list("authors", "network_keys_end + 3") + `,
        ` + list("address_keys", "authors_end") + `,
        ` + list("addresses", "address_keys_end") + `,
        ` + list("languages", "addresses_end + 1") + `,
        ` + list("own_names", "languages_end + 2") + `
    FROM ` + tables + "." + AnswersTable + " FINAL)"
}

// DerivedEmailKeys returns the normalized author addresses of the account's own commits.
func (r *AnswerRow) DerivedEmailKeys() []string { return r.values.addressKeys }

// WithoutSuppressed returns the row without the addresses, names and commits of authors whose normalized address is
// suppressed. Builds remove them from the row, too, but a build that began before the erasure may finish after it.
func (r *AnswerRow) WithoutSuppressed(suppressed func(key string) bool) *AnswerRow {
	known := make(map[string]bool)
	isSuppressed := func(key string) bool {
		hit, asked := known[key]
		if !asked {
			hit = key != "" && suppressed(key)
			known[key] = hit
		}
		return hit
	}
	entries, dropped := withoutCommits(r.entries, func(address string) bool {
		key, err := identity.NormalizeEmail(address)
		return err == nil && isSuppressed(key)
	})
	if dropped == 0 && !slices.ContainsFunc(r.values.addressKeys, isSuppressed) {
		return r
	}
	row := *r
	row.entries, row.Commits = entries, r.Commits-min(dropped, r.Commits)
	row.values.authors = nil // They are not stored by address.
	row.values.addressKeys, row.values.addresses = nil, nil
	for i, k := range r.values.addressKeys {
		if !isSuppressed(k) {
			row.values.addressKeys = append(row.values.addressKeys, k)
			row.values.addresses = append(row.values.addresses, r.values.addresses[i])
		}
	}
	return &row
}

// WithoutAuthors returns the row without names and addresses of commits.
func (r *AnswerRow) WithoutAuthors() *AnswerRow {
	row := *r
	row.values.authors, row.values.addressKeys, row.values.addresses = nil, nil, nil
	return &row
}

// FieldMask returns the bits of the fields that the account has, derived ones included (CodehostFieldMask).
func (r *AnswerRow) FieldMask() uint64 {
	mask := r.present
	if r.Commits > 0 {
		mask |= hostCommitCount
	}
	if r.values.languages.count > 0 {
		mask |= hostRepoLanguages
	}
	if len(r.newAddresses()) > 0 {
		mask |= hostEmails | hostPersonalEmail
	}
	return mask
}

// newAddresses returns the distinct commit addresses that the record lacks.
func (r *AnswerRow) newAddresses() []string {
	var out []string
	for i, k := range r.values.addressKeys {
		if !slices.Contains(r.EmailKeys, k) && !slices.Contains(r.values.addressKeys[:i], k) {
			out = append(out, r.values.addresses[i])
		}
	}
	return out
}

// AppendAccount appends the fields of the account in a shape, without lists and last_updated, to the object
// at the end of b. linked are the names of the linked record.
func (r *AnswerRow) AppendAccount(b []byte, shape Shape, linked ...string) []byte {
	b = appendPieces(b, r.account, shape, "")
	if len(b) > 0 && b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	w := writer{buf: b, noMail: shape == ShapeAddon}
	derived, paths := r.values.derived, derive.CodehostAddonPaths()
	if shape&(ShapeEnrich|ShapeWebset) != 0 {
		paths = derive.CodehostPaths()
		derived |= r.writeNames(&w, shape, linked) | r.writeEmails(&w, shape)
	}
	if r.present&hostRepoLanguages == 0 && r.values.languages.count > 0 {
		w.list(`"repo_languages":`, r.values.languages)
		derived |= derive.RepoLanguages
	}
	if r.present&hostCommitCount == 0 && r.Commits > 0 {
		w.integer(`"commit_count":`, int64(r.Commits)) //nolint:gosec // a number of rows
		derived |= derive.CommitCount
	}
	w.derived(derived, paths)
	return w.fragment()
}

// writeNames writes the names of the record, of the linked record, and of the authors of its own commits.
func (r *AnswerRow) writeNames(w *writer, shape Shape, linked []string) derive.Fields {
	own := r.values.names.enrich
	others := [][]string{linked, r.values.authors}
	if shape == ShapeWebset {
		own = r.values.names.webset
		others = [][]string{r.values.names.enrich.items, linked, r.values.authors}
	}
	list := own.extended(others...)
	w.list(`"names":`, list)
	if list.count > own.count {
		return derive.Names
	}
	return 0
}

// writeEmails writes the addresses of the record and of its own commits.
func (r *AnswerRow) writeEmails(w *writer, shape Shape) derive.Fields {
	own := r.values.emails.enrich
	if shape == ShapeWebset {
		own = r.values.emails.webset
	}
	list := own.extended(r.newAddresses())
	w.list(`"emails":`, list)
	if shape == ShapeEnrich && list.count > 0 {
		w.str(`"email":`, cmp.Or(r.values.email, list.items[0]))
	}
	if list.count > own.count {
		return derive.Emails
	}
	return 0
}

// extended returns the list with further distinct entries appended. A list that is already cut stays
// unchanged.
func (l servedList) extended(others ...[]string) servedList {
	out := servedList{slices.Clip(l.items), l.count}
	if l.count > len(l.items) {
		return out
	}
	for _, list := range others {
		for _, s := range list {
			if s != "" && !slices.Contains(out.items, s) {
				out.items = append(out.items, s)
			}
		}
	}
	out.count = len(out.items)
	out.items = out.items[:min(out.count, MaxEntries)]
	return out
}

// list writes a list and its count.
func (w *writer) list(key string, l servedList) {
	w.strings(key, l.items, whenCut)
	w.count(key, l.count, always)
}
