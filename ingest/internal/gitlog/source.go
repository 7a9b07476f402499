package gitlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-json-experiment/json"

	"muster/ingest/internal/source"
	"muster/schemas/record"
)

// Log is the [source.Source] of what is new in a repository: its commits, the
// newest first, then their authors, then the repository. An object's number is its
// place in this reading.
type Log struct {
	ctx      context.Context
	repo     *Repository
	objects  *objects
	walk     *walk
	accounts *accounts
	people   map[int64]*person
	language string
	newest   time.Time
	oldest   time.Time
	pos      source.Position
	lines    []source.Line // made when the walk is over
	consumed atomic.Int64
	failure  error
}

var _ source.Source = (*Log)(nil)

// person is what commits say of an author.
type person struct {
	account Account
	name    string
	emails  []string
	newest  time.Time
}

// maxEmails is how many addresses of an author are kept.
const maxEmails = 20

// chunkCommits and chunkBytes are about how much makes a chunk.
const (
	chunkCommits = 500
	chunkBytes   = 256 << 10
)

// Log begins a reading. Reading ends with ctx's error once ctx has ended.
func (r *Repository) Log(ctx context.Context) (_ *Log, err error) {
	l := &Log{ctx: ctx, repo: r, objects: newObjects(r.git.Storer, r.files), people: map[int64]*person{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	tips, err := r.tips(ctx, l.objects)
	if err != nil {
		return nil, l.explain(err)
	}
	r.next.Tips = r.next.Tips[:0]
	for _, h := range tips {
		r.next.Tips = append(r.next.Tips, h.String())
	}
	if slices.Equal(r.next.Tips, r.state.Tips) {
		return l, nil // nothing is new
	}
	shallow, err := r.git.Storer.Shallow()
	if err != nil {
		return nil, l.explain(fmt.Errorf("read shallow commits: %w", err))
	}
	if l.walk, err = newWalk(ctx, l.objects, shallow, tips, hashes(r.state.Tips)); err != nil {
		return nil, l.explain(err)
	}
	head := r.head(l.objects)
	mailmap, err := readMailmap(head)
	if err != nil {
		return nil, l.explain(err)
	}
	l.language = language(ctx, head)
	l.accounts = newAccounts(r.opts, mailmap)
	return l, nil
}

// Name implements [source.Source].
func (l *Log) Name() string { return l.repo.path }

// Consumed implements [source.Source]. How much of a repository's files was read
// says nothing: it is the size of what was made of it.
func (l *Log) Consumed() int64 { return l.consumed.Load() }

// Close implements [source.Source].
func (l *Log) Close() error {
	if err := l.objects.close(); err != nil {
		return fmt.Errorf("close %s: %w", l.repo.path, err)
	}
	return nil
}

func (l *Log) explain(err error) error {
	if l.ctx.Err() != nil {
		return l.ctx.Err()
	}
	return &source.Error{Name: l.repo.path, At: l.pos, Op: "read the history", Err: err}
}

// Next implements [source.Source].
func (l *Log) Next() (*source.Chunk, error) {
	if l.failure != nil {
		return nil, l.failure
	}
	c := &source.Chunk{}
	size := 0
	for l.walk != nil && len(c.Lines)+int(c.Dropped) < chunkCommits && size < chunkBytes {
		if err := l.ctx.Err(); err != nil {
			l.failure = err
			return nil, err
		}
		commit, err := l.walk.next()
		if err != nil {
			l.failure = l.explain(err)
			return nil, l.failure
		}
		if commit == nil {
			l.walk = nil
			if err := l.conclude(); err != nil {
				l.failure = l.explain(err)
				return nil, l.failure
			}
			break
		}
		if commit.large {
			c.Lines = append(c.Lines, tooLarge(commit.Hash.String()))
			continue
		}
		line, ok, err := l.commit(commit.Commit)
		if err != nil {
			l.failure = l.explain(err)
			return nil, l.failure
		}
		if !ok {
			l.repo.passOver(commit.Commit)
			c.Dropped++
			continue
		}
		size += len(line.Raw)
		c.Lines = append(c.Lines, line)
	}
	for len(l.lines) > 0 && len(c.Lines) < chunkCommits {
		c.Lines = append(c.Lines, l.lines[0])
		l.lines = l.lines[1:]
	}
	for i := range c.Lines {
		l.pos.Line++
		c.Lines[i].Number = l.pos.Line
		l.consumed.Add(int64(len(c.Lines[i].Raw)))
	}
	if len(c.Lines) == 0 && c.Dropped == 0 {
		l.failure = io.EOF
		return nil, io.EOF
	}
	c.End = l.pos
	return c, nil
}

// tooLarge is the line of a commit that was not read.
func tooLarge(hash string) source.Line {
	return source.Line{
		Kind: record.KindCodehostCommit, Raw: []byte(`{"sha":"` + hash + `"}`),
		Bad: &record.Invalid{Code: record.CodeTooLarge, Reason: fmt.Sprintf("is a commit of more than %d MiB; it is passed over, and what it follows", maxObject>>20)},
	}
}

// commit makes the record of a commit, unless its author has no account.
func (l *Log) commit(c *object.Commit) (source.Line, bool, error) {
	if when := c.Author.When; l.oldest.IsZero() || when.Before(l.oldest) {
		l.oldest = when
	}
	if when := c.Committer.When; when.After(l.newest) {
		l.newest = when
	}
	account, ok := l.accounts.of(c.Author.Email)
	if !ok {
		return source.Line{}, false, nil
	}
	l.seen(account, c)
	raw, err := json.Marshal(&record.CodehostCommit{
		UserID:      &account.ID,
		SHA:         c.Hash.String(),
		AuthorDate:  timestamp(c.Author.When),
		Message:     strings.TrimRight(clean(c.Message), "\n"),
		AuthorName:  clean(c.Author.Name),
		AuthorEmail: clean(c.Author.Email),
		AuthorLogin: account.Username,
		Repo:        &record.CommitRepo{FullName: l.repo.name.full(), Language: l.language},
	})
	if err != nil {
		return source.Line{}, false, fmt.Errorf("write commit %s: %w", c.Hash, err)
	}
	line := source.Line{Kind: record.KindCodehostCommit, Raw: raw}
	return line, true, nil
}

// seen takes down what a commit says of its author.
func (l *Log) seen(account Account, c *object.Commit) {
	p, ok := l.people[account.ID]
	if !ok {
		p = &person{account: account}
		l.people[account.ID] = p
	}
	if when := c.Author.When; when.After(p.newest) || p.name == "" {
		p.newest, p.account.Username = when, account.Username
		p.name = short(clean(c.Author.Name))
		if proper := l.accounts.mailmap.names[address(c.Author.Email)]; proper != "" {
			p.name = proper
		}
	}
	email := address(clean(c.Author.Email))
	if !l.accounts.isNoReply(email) && strings.Contains(email, "@") && len(email) <= maxText && len(p.emails) < maxEmails && !slices.Contains(p.emails, email) {
		p.emails = append(p.emails, email)
	}
}

// conclude makes the records of the authors and of the repository.
func (l *Log) conclude() error {
	ids := make([]int64, 0, len(l.people))
	for id := range l.people {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		p := l.people[id]
		slices.Sort(p.emails)
		err := l.add(record.KindCodehostPerson, &record.CodehostPerson{
			UserID: &p.account.ID, LastUpdated: evidenceVersion(p.newest),
			CodehostUsername: p.account.Username, FullName: p.name, Emails: p.emails,
		})
		if err != nil {
			return err
		}
	}
	return l.repository()
}

// repository makes the record of the repository, if its owner is known.
func (l *Log) repository() error {
	r := l.repo
	if r.next.Created.IsZero() || l.oldest.Before(r.next.Created) && !l.oldest.IsZero() {
		r.next.Created = l.oldest
	}
	if owner := l.accounts.byName[strings.ToLower(r.name.owner)]; owner.ID > 0 {
		r.next.Owner = owner
	}
	for _, p := range l.people { // those that were made up, too
		if strings.EqualFold(p.account.Username, r.name.owner) {
			r.next.Owner = p.account
		}
	}
	if r.opts.Owner.ID > 0 {
		r.next.Owner = r.opts.Owner
	}
	if r.next.Owner.ID == 0 || l.newest.IsZero() {
		return nil
	}
	id := made("repository " + strings.ToLower(r.name.full()))
	return l.add(record.KindCodehostRepo, &record.CodehostRepo{
		UserID: &r.next.Owner.ID, ID: &id, UpdatedAt: timestamp(l.newest), CreatedAt: record.PartialDate(timestamp(r.next.Created)),
		Name: r.name.name, FullName: r.name.full(), Language: l.language,
	})
}

func (l *Log) add(kind record.Kind, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write %s: %w", kind, err)
	}
	l.lines = append(l.lines, source.Line{Kind: kind, Raw: raw})
	return nil
}

// evidenceVersion is the version of a person who follows from a commit of some
// time: its seconds become microseconds after 1970. So among each other the newest
// wins, and a record that somebody crawled always wins over them.
func evidenceVersion(t time.Time) string {
	const hour = 3_600_000_000 // microseconds
	return time.UnixMicro(min(max(t.Unix(), 0), hour-1)).UTC().Format("2006-01-02T15:04:05.000000Z")
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// maxText bounds the names and addresses that are kept for each author, in bytes.
const maxText = 1 << 10

// short cuts a text that is longer.
func short(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(strings.Clone(s[:maxText]), "")
}

// clean makes text that a record can hold.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
