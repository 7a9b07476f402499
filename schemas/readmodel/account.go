package readmodel

import (
	"cmp"
	"slices"

	"muster/schemas/derive"
)

// accountValues are the values of an account that its record, its repositories and its commits state together
// (MAPPING.md, section 1, "Derived values").
type accountValues struct {
	authors       []string // names of the authors of its own commits, those of most commits first
	addressKeys   []string // comparison forms of their addresses, likewise
	addresses     []string // as given
	languages     servedList
	derived       derive.Fields // of the record alone
	names, emails struct{ enrich, webset servedList }
	email         string // the record's own, if it has one beside emails
}

// read reads the fields, which BuildAnswers and Renderer.appendAccountLists write.
func (a *accountValues) read(f *fields) {
	a.authors, a.addressKeys, a.addresses = f.list(), f.list(), f.list()
	a.languages = f.served()
	a.derived = derive.Fields(f.unsigned()) //nolint:gosec // as it was written
	a.names.enrich, a.names.webset = f.served(), f.served()
	a.emails.enrich, a.emails.webset = f.served(), f.served()
	a.email = f.text()
}

// DerivedEmailKeys returns the comparison forms of the addresses of the account's own commits.
func (r *AnswerRow) DerivedEmailKeys() []string { return r.values.addressKeys }

// WithoutAddresses returns the row without those addresses of commits whose comparison form is suppressed.
func (r *AnswerRow) WithoutAddresses(suppressed func(key string) bool) *AnswerRow {
	if !slices.ContainsFunc(r.values.addressKeys, suppressed) {
		return r
	}
	row := *r
	row.values.addressKeys, row.values.addresses = nil, nil
	for i, k := range r.values.addressKeys {
		if !suppressed(k) {
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

// newAddresses are the addresses of commits that the record lacks, each once.
func (r *AnswerRow) newAddresses() []string {
	var out []string
	for i, k := range r.values.addressKeys {
		if !slices.Contains(r.EmailKeys, k) && !slices.Contains(r.values.addressKeys[:i], k) {
			out = append(out, r.values.addresses[i])
		}
	}
	return out
}

// AppendAccount appends the members of the account in a shape, without the lists and last_updated, to an object that b
// ends with. linked are the names of the record that its link leads to.
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

// writeNames writes names: those of the record, of the linked record, and of the authors of its own commits.
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

// writeEmails writes emails: those of the record and the addresses of its own commits.
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

// extended returns the list with further entries behind its own, each once. A list that is cut stays as it is.
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
