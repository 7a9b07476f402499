package gitlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"muster/ingest/internal/source"
	"muster/schemas/record"
)

// Log is the [source.Source] of the new records of a repository: its commits, newest first, then
// their authors, then the repository. The number of an object is its position in this reading.
type Log struct {
	ctx      context.Context
	repo     *Repository
	commits  *commits // nil after all are read
	tips     []string
	accounts *accounts
	people   map[int64]*person
	users    map[string]int64 // account ID by commit address, or shared
	language string
	newest   time.Time
	oldest   time.Time
	pos      source.Position
	lines    []source.Line // records to return after the commits
	consumed atomic.Int64
	failure  error
}

var _ source.Source = (*Log)(nil)

// person is what commits state about an author.
type person struct {
	account Account
	email   string // the proper address
	names   []string
	emails  []string
	newest  int64 // Unix time in seconds
}

// shared marks an address that several authors commit with: it belongs to none of them.
const shared = -1

// maxEmails and maxSpellings are the maximum numbers of addresses and names per author; the newest are kept.
const (
	maxEmails    = 20
	maxSpellings = 20
)

// chunkCommits and chunkBytes are the approximate sizes of a chunk.
const (
	chunkCommits = 500
	chunkBytes   = 256 << 10
)

// Log starts a reading. Reads return ctx's error after ctx has ended.
func (r *Repository) Log(ctx context.Context) (*Log, error) {
	l := &Log{ctx: ctx, repo: r, people: map[int64]*person{}, users: map[string]int64{}}
	if err := l.begin(ctx); err != nil {
		return nil, errors.Join(l.explain(err), l.Close())
	}
	return l, nil
}

func (l *Log) begin(ctx context.Context) error {
	r := l.repo
	head, err := r.head(ctx)
	if err != nil {
		return err
	}
	if l.tips, err = r.tips(ctx, head); err != nil {
		return err
	}
	r.next.Tips = l.tips
	if slices.Equal(r.next.Tips, r.state.Tips) || len(l.tips) == 0 {
		// Nothing is new.
		return nil
	}
	mailmap, err := r.readMailmap(ctx, head)
	if err != nil {
		return err
	}
	l.language = r.language(ctx, head)
	l.accounts = newAccounts(r.opts, mailmap, l.learn)
	l.commits, err = r.git.commits(ctx, l.tips, objectNames(r.state.Tips))
	return err
}

// learn reads the no-reply addresses of the full history: some have the IDs of usernames in others.
func (l *Log) learn() error {
	return l.each(func(c *commit) error {
		l.accounts.byNoReply(c.author.email)
		return nil
	})
}

// addOlderCommits adds what older commits state about the authors of new commits, because their
// records replace older ones.
func (l *Log) addOlderCommits() error {
	return l.each(func(c *commit) error {
		author := l.accounts.mailmap.lookup(c.author)
		account, ok, err := l.accounts.resolve(author)
		if ok {
			l.recordUser(c.author.email, account)
			if p := l.people[account.ID]; p != nil {
				p.addCommit(account, author, c.author)
			}
		}
		return err
	})
}

// each iterates over the full history.
func (l *Log) each(do func(*commit) error) error {
	all, err := l.repo.git.commits(l.ctx, l.tips, nil)
	if err != nil {
		return err
	}
	for {
		c, err := all.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = do(c)
		}
		if err != nil {
			return errors.Join(err, all.close())
		}
	}
}

// Name implements [source.Source].
func (l *Log) Name() string { return l.repo.path }

// Consumed implements [source.Source]. It is the size of the records, because the number of
// repository bytes read is not known.
func (l *Log) Consumed() int64 { return l.consumed.Load() }

// Close implements [source.Source].
func (l *Log) Close() error {
	if l.commits == nil {
		return nil
	}
	return l.commits.close()
}

func (l *Log) explain(err error) error {
	if l.ctx.Err() != nil {
		return l.ctx.Err()
	}
	return &source.Error{Name: l.repo.path, At: l.pos, Op: "read history", Err: err}
}

// Next implements [source.Source].
func (l *Log) Next() (*source.Chunk, error) {
	if l.failure != nil {
		return nil, l.failure
	}
	c := &source.Chunk{}
	size := 0
	for l.commits != nil && len(c.Lines)+int(c.Dropped) < chunkCommits && size < chunkBytes {
		if err := l.ctx.Err(); err != nil {
			l.failure = err
			return nil, err
		}
		line, ok, err := l.nextCommit()
		if errors.Is(err, io.EOF) {
			l.commits, err = nil, l.conclude()
			if err == nil {
				break
			}
		}
		if err != nil {
			l.failure = l.explain(err)
			return nil, l.failure
		}
		if !ok {
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

// tooLarge returns the line for a commit that was not read.
func tooLarge(hash string) source.Line {
	return source.Line{
		Kind: record.KindCodehostCommit, Raw: []byte(`{"sha":"` + hash + `"}`),
		Bad: &record.ValidationError{
			Code:   record.CodeTooLarge,
			Reason: fmt.Sprintf("is a commit larger than %d MiB", maxObject>>20),
		},
	}
}

// nextCommit returns the record of the next commit; ok is false if its author has no account. It
// returns io.EOF after the last commit.
func (l *Log) nextCommit() (source.Line, bool, error) {
	c, err := l.commits.next()
	if err != nil {
		return source.Line{}, false, err
	}
	if c.large {
		return tooLarge(c.hash), true, nil
	}
	if when := c.author.when; l.oldest.IsZero() || when.Before(l.oldest) {
		l.oldest = when
	}
	if when := c.committer.when; when.After(l.newest) {
		l.newest = when
	}
	author := l.accounts.mailmap.lookup(c.author)
	account, ok, err := l.accounts.resolve(author)
	if err != nil {
		return source.Line{}, false, err
	}
	if !ok {
		l.repo.countUnattributed(author)
		return source.Line{}, false, nil
	}
	l.repo.attributed++
	l.recordUser(c.author.email, account)
	p, ok := l.people[account.ID]
	if !ok {
		p = &person{account: account, newest: math.MinInt64}
		l.people[account.ID] = p
	}
	p.addCommit(account, author, c.author)
	raw, err := json.Marshal(&record.CodehostCommit{
		UserID:      &account.ID,
		SHA:         c.hash,
		AuthorDate:  timestamp(c.author.when),
		Message:     c.message,
		AuthorName:  c.author.name,
		AuthorEmail: c.author.email,
		AuthorLogin: account.Username,
		Repo:        &record.CommitRepo{FullName: l.repo.name.fullName(), Language: l.language},
	})
	if err != nil {
		return source.Line{}, false, fmt.Errorf("encode commit %s: %w", c.hash, err)
	}
	return source.Line{Kind: record.KindCodehostCommit, Raw: raw}, true, nil
}

// recordUser records the account that commits with an address.
func (l *Log) recordUser(email string, account Account) {
	email = address(email)
	if user, ok := l.users[email]; !ok {
		l.users[email] = account.ID
	} else if user != account.ID {
		l.users[email] = shared
	}
}

// addCommit adds what a commit states about its author. Newer commits must come first.
func (p *person) addCommit(account Account, author author, written signature) {
	name, email := short(author.name), address(author.email)
	if when := written.when.Unix(); when > p.newest {
		p.newest, p.account.Username, p.email = when, account.Username, email
		p.names = addNew(addNew(nil, 1, name), maxSpellings, p.names...)
	}
	p.names = addNew(p.names, maxSpellings, name, short(written.name))
	p.emails = addNew(p.emails, maxEmails, email, address(written.email))
}

// addNew appends the strings that a list does not have, up to a maximum length.
func addNew(list []string, maxLen int, values ...string) []string {
	for _, s := range values {
		if s != "" && len(list) < maxLen && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// contacts returns the addresses of an author that can receive mail, the proper one first.
func (l *Log) contacts(p *person) []string {
	var out []string
	for _, email := range append([]string{p.email}, p.emails...) {
		// A proper address is its owner's, even if others commit with it.
		isShared := l.users[email] == shared && email != p.email
		if l.accounts.reachable(email) && !isShared {
			out = addNew(out, maxEmails, email)
		}
	}
	return out
}

// conclude adds the records of the authors and of the repository.
func (l *Log) conclude() error {
	if len(objectNames(l.repo.state.Tips)) > 0 && len(l.people) > 0 {
		if err := l.addOlderCommits(); err != nil {
			return err
		}
	}
	ids := make([]int64, 0, len(l.people))
	for id := range l.people {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		p := l.people[id]
		name := ""
		if len(p.names) > 0 {
			name = p.names[0]
		}
		err := l.add(record.KindCodehostPerson, &record.CodehostPerson{
			UserID: &p.account.ID, LastUpdated: evidenceVersion(time.Unix(p.newest, 0)),
			CodehostUsername: p.account.Username, Type: p.account.accountType(),
			FullName: name, Names: p.names, Emails: l.contacts(p),
		})
		if err != nil {
			return err
		}
	}
	return l.addRepository()
}

// addRepository adds the record of the repository, if its owner is known.
func (l *Log) addRepository() error {
	r := l.repo
	if r.next.Created.IsZero() || l.oldest.Before(r.next.Created) && !l.oldest.IsZero() {
		r.next.Created = l.oldest
	}
	if owner := l.accounts.byName[strings.ToLower(r.name.owner)]; owner.ID > 0 {
		r.next.Owner = owner
	}
	for _, p := range l.people { // including synthetic accounts
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
	id := syntheticID("repository " + strings.ToLower(r.name.fullName()))
	return l.add(record.KindCodehostRepo, &record.CodehostRepo{
		UserID: &r.next.Owner.ID, ID: &id,
		UpdatedAt: timestamp(l.newest), CreatedAt: record.PartialDate(timestamp(r.next.Created)),
		Name: r.name.name, FullName: r.name.fullName(), Language: l.language,
	})
}

func (l *Log) add(kind record.Kind, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode %s: %w", kind, err)
	}
	l.lines = append(l.lines, source.Line{Kind: kind, Raw: raw})
	return nil
}

// evidenceVersion returns the version of a person derived from a commit at time t: its Unix seconds are taken as
// microseconds. So the newest commit wins among them, and every crawled record wins over them.
func evidenceVersion(t time.Time) string {
	const hour = 3_600_000_000 // microseconds
	return time.UnixMicro(min(max(t.Unix(), 0), hour-1)).UTC().Format("2006-01-02T15:04:05.000000Z")
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// maxText is the maximum size of stored names and addresses, in bytes.
const maxText = 1 << 10

// short truncates a string to maxText.
func short(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(strings.Clone(s[:maxText]), "")
}
