package readmodel

import (
	"muster/schemas/record"
)

// codehostRepo adds the row of a repository.
func (r *Renderer) codehostRepo(b *Batch, rec *record.Record, p *record.CodehostRepo, at Position) {
	t := &b.codehostRepos
	t.head.add(rec, at)
	t.userID.add(*p.UserID)
	t.repoID.add(*p.ID)
	w := &r.w
	if rec.Deleted {
		t.entry.add(nil)
		t.enrich.add(nil)
		t.redacted.add(nil)
		return
	}
	w.own.set()
	w.reset(false)
	r.repo(p)
	entry := w.fragment()
	t.entry.add(entry)
	mail := mayNeedWalk(entry) // hardly any repository has one

	w.reset(false)
	w.integer(`"repo_id":`, *p.ID)
	w.repoText(p)
	w.str(`"created_at":`, p.CreatedAt.Full())
	w.str(`"updated_at":`, record.PartialDate(record.Observed(p.UpdatedAt)).Full())
	w.unknown(p.Unknown, r.codehost.enrichRepo)
	t.enrich.add(w.fragment())

	w.reset(true)
	if mail {
		r.repo(p)
	}
	t.redacted.add(w.ifChanged())
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

// ifChanged is the fragment, or nothing when e-mail removal found nothing.
func (w *writer) ifChanged() []byte {
	if !w.changed {
		return nil
	}
	return w.fragment()
}

// codehostCommit adds the row of a commit.
func (r *Renderer) codehostCommit(b *Batch, rec *record.Record, p *record.CodehostCommit, at Position) {
	t := &b.codehostCommits
	t.head.add(rec, at)
	t.userID.add(*p.UserID)
	t.sha.add(p.SHA)
	if rec.Deleted {
		t.entry.add(nil)
		t.redacted.add(nil)
		return
	}
	w := &r.w
	w.own.set(one(p.AuthorEmail))
	w.reset(false)
	r.commit(p)
	t.entry.add(w.fragment())
	w.reset(true)
	r.commit(p)
	t.redacted.add(w.ifChanged())
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

// codehostList adds the row of a complete list.
func (r *Renderer) codehostList(b *Batch, rec *record.Record, p *record.CodehostList, at Position) {
	t := &b.codehostLists
	t.head.add(rec, at)
	t.userID.add(*p.UserID)
	t.list.add(p.List)
	t.items.add(p.Items)
}
