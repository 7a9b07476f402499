package readmodel

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/identity"
	"muster/schemas/record"
)

// codehostRepo adds the row of a repository.
func (r *Renderer) codehostRepo(b *Batch, rec *record.Record, p *record.CodehostRepo, at Position) {
	t := &b.codehostRepos
	t.common.add(rec, at)
	t.userID.add(*p.UserID)
	t.repoID.add(*p.ID)
	w := &r.w
	if rec.Deleted {
		t.content.add(nil)
		return
	}
	w.own.set()
	content := appendField(r.content[:0], p.Language)

	w.reset(false)
	w.integer(`"repo_id":`, *p.ID)
	w.repoText(p)
	w.str(`"created_at":`, p.CreatedAt.Full())
	w.str(`"updated_at":`, record.PartialDate(record.Observed(p.UpdatedAt)).Full())
	w.unknown(p.Unknown, r.codehost.enrichRepo)
	content = append(append(appendMark(content, ShapeEnrich), '{'), w.fragment()...)
	content = appendMark(content, ShapeEnrich|shapeSpecial)
	content = append(appendMark(content, ShapeEnrich), '}')

	content = r.appendEntry(content, ShapeWebset, func() { r.repo(p) })
	t.content.add(content)
	r.content = content
}

// appendEntry appends the object whose fields write writes: without e-mail addresses for shapes, and complete
// for ShapeOpen in addition.
func (r *Renderer) appendEntry(b []byte, shapes Shape, write func()) []byte {
	w := &r.w
	shapes |= ShapeOpen
	w.reset(true)
	write()
	if !w.changed {
		return append(append(append(appendMark(b, shapes|ShapeAddon), '{'), w.fragment()...), '}')
	}
	b = append(append(append(appendMark(b, ShapeAddon), '{'), w.fragment()...), '}')
	w.reset(false)
	write()
	return append(append(append(appendMark(b, shapes), '{'), w.fragment()...), '}')
}

// repo writes a repository of the websets (schemas/MAPPING.md, 7.2).
func (r *Renderer) repo(p *record.CodehostRepo) {
	w := &r.w
	w.integer(`"id":`, *p.ID)
	w.repoText(p)
	w.str(`"created_at":`, string(p.CreatedAt))
	w.str(`"updated_at":`, record.Observed(p.UpdatedAt))
	w.unknown(p.Unknown, r.codehost.repo)
}

func (w *writer) repoText(p *record.CodehostRepo) {
	w.str(`"name":`, p.Name)
	w.str(`"full_name":`, p.FullName)
	w.str(`"description":`, p.Description)
	w.str(`"language":`, p.Language)
	w.int(`"stargazers_count":`, p.StargazersCount)
	w.int(`"forks_count":`, p.ForksCount)
	w.strings(`"topics":`, p.Topics, whenCut)
}

// codehostCommit adds the row of a commit, and indexes the account by the author's address, except for
// no-reply addresses, which contain the account.
func (r *Renderer) codehostCommit(b *Batch, rec *record.Record, p *record.CodehostCommit, at Position) {
	t := &b.codehostCommits
	t.common.add(rec, at)
	t.userID.add(*p.UserID)
	t.sha.add(p.SHA)
	if rec.Deleted {
		t.content.add(nil)
		return
	}
	address, err := identity.NormalizeEmail(p.AuthorEmail)
	if _, _, noReply := r.platforms.NoReply(p.AuthorEmail); err != nil || noReply {
		address = ""
	}
	author := commitAuthor{*p.UserID, address}
	if address != "" && (author != b.lastAuthor || rec.Version > b.lastVersion) {
		l := b.lookupsOf(rec, TargetCodehostPerson, itoa(*p.UserID), at)
		l.addEmails(LookupCodehostEmail, address)
		b.lastAuthor, b.lastVersion = author, rec.Version
	}
	content := appendField(r.content[:0], identity.NormalizeUsername(p.AuthorLogin))
	content = appendField(appendField(appendField(content, p.AuthorName), address), p.AuthorEmail)
	r.w.own.set(optional(p.AuthorEmail))
	content = r.appendEntry(content, ShapeEnrich|ShapeWebset, func() { r.commit(p) })
	t.content.add(content)
	r.content = content
}

// commit writes a commit (schemas/MAPPING.md, 7.3); without e-mail the
// author's address is left out.
func (r *Renderer) commit(p *record.CodehostCommit) {
	w := &r.w
	w.str(`"sha":`, p.SHA)
	w.str(`"message":`, p.Message)
	w.str(`"author_name":`, p.AuthorName)
	if !w.noMail {
		w.str(`"author_email":`, p.AuthorEmail)
	} else if p.AuthorEmail != "" {
		w.changed = true
	}
	w.str(`"author_login":`, p.AuthorLogin)
	w.str(`"author_date":`, p.AuthorDate)
	if c := p.Repo; c != nil {
		mark := w.open(`"repo":`, '{')
		w.str(`"full_name":`, c.FullName)
		w.str(`"language":`, c.Language)
		w.unknown(c.Unknown, r.codehost.commitRepo)
		w.close(mark, '}')
	}
	w.unknown(p.Unknown, r.codehost.commit)
}

// withoutCommits returns the entries of an answer without the commits whose author address drop reports, and their
// number. The count of the list is reduced, and a list without other commits is left out.
func withoutCommits(entries string, drop func(address string) bool) (kept string, dropped uint64) {
	repos, commits, ok := strings.Cut(entries, beginOf("commits"))
	if !ok {
		return entries, 0
	}
	list, count, _ := strings.Cut(commits, endOf("commits"))
	var b strings.Builder
	for at := 0; at < len(list); {
		end := endOfEntry(list, at)
		if address := authorAddress(list[at:end]); address != "" && drop(address) {
			dropped++
		} else {
			b.WriteString(list[at:end])
		}
		at = end
	}
	n, err := strconv.ParseUint(count, 10, 64)
	switch {
	case dropped == 0 || err != nil:
		return entries, 0
	case dropped >= n:
		return repos, dropped
	}
	return repos + beginOf("commits") + b.String() + endOf("commits") + strconv.FormatUint(n-dropped, 10), dropped
}

// endOfEntry returns the end of the entry at an offset: its complete piece follows one for ShapeAddon, if that differs
// (Renderer.appendEntry).
func endOfEntry(list string, at int) int {
	for addonOnly := true; addonOnly && at < len(list); {
		addonOnly = strings.HasPrefix(list[at+1:], ShapeAddon.letter())
		next := strings.IndexByte(list[at+1:], pieceMark)
		if next < 0 {
			return len(list)
		}
		at += 1 + next
	}
	return at
}

// authorAddress returns the author's address of a rendered commit as given, empty if it has none.
func authorAddress(entry string) string {
	_, value, ok := strings.Cut(entry, `"author_email":`)
	if !ok {
		return ""
	}
	end := 1
	for end < len(value) && value[end] != '"' {
		if value[end] == '\\' {
			end++
		}
		end++
	}
	address, err := jsontext.AppendUnquote(nil, value[:min(end+1, len(value))])
	if err != nil {
		return ""
	}
	return string(address)
}

// codehostList adds the row of a complete list.
func (r *Renderer) codehostList(b *Batch, rec *record.Record, p *record.CodehostList, at Position) {
	t := &b.codehostLists
	t.common.add(rec, at)
	t.userID.add(*p.UserID)
	t.list.add(p.List)
	t.items.add(p.Items)
}
