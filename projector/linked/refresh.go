package linked

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/resolution"
	"muster/schemas/suppress"
)

const (
	// peopleAtOnce is the number of people who are refreshed together.
	peopleAtOnce = 1000
	// maxDeclared is the maximum number of declared usernames of a record that are followed, as in the API.
	maxDeclared = 100
	// maxPasses is how often people are refreshed again whose account differs each time.
	maxPasses = 10
)

var errUnsettled = errors.New("linked accounts: they change while they are refreshed; try again")

// Refresher writes the linked accounts of people. Conn and Now are required.
type Refresher struct {
	Conn       driver.Conn
	Suppressed *suppress.Set // people without a row, and accounts that are not linked; nil: none
	Now        func() time.Time
	// Announce is called before rows of people are written or deleted; nil: it is not. See the function [Announce].
	Announce func(ctx context.Context, people []string) error
}

// Refresh reads the links of people, writes the rows that differ, and returns the people whose row was written or
// deleted.
func (r *Refresher) Refresh(ctx context.Context, people []string) (changed []string, err error) {
	for part := range slices.Chunk(people, peopleAtOnce) {
		some, err := r.refreshSome(ctx, part)
		if err != nil {
			return changed, err
		}
		changed = append(changed, some...)
	}
	return changed, nil
}

// RefreshAll refreshes everyone. After each step it calls done, unless it is nil, with the number of people of the
// step, and those of them whom Refresh returns.
func (r *Refresher) RefreshAll(ctx context.Context, done func(refreshed int, changed []string) error) error {
	var after uint64
	for first := true; ; first = false {
		people, last, err := readmodel.PeopleAfter(ctx, r.Conn, after, first, peopleAtOnce)
		if err != nil || len(people) == 0 {
			return err
		}
		changed, err := r.Refresh(ctx, people)
		if err != nil {
			return err
		}
		if done != nil {
			if err := done(len(people), changed); err != nil {
				return err
			}
		}
		after = last
	}
}

// refreshSome refreshes people until no row differs any more. A refresh that took longer than a later one may overwrite
// its row with what it has read before: the later one has written none, as the links were again those of the row that
// it has read, or one of the same version. The pass after an insert repairs that.
func (r *Refresher) refreshSome(ctx context.Context, people []string) (changed []string, err error) {
	for range maxPasses {
		some, err := r.refreshOnce(ctx, people)
		if err != nil {
			return changed, err
		}
		if len(some) == 0 {
			slices.Sort(changed)
			return slices.Compact(changed), nil
		}
		changed, people = append(changed, some...), some
	}
	return changed, errUnsettled
}

// refreshOnce writes the rows of people that differ from their links, and returns these people.
func (r *Refresher) refreshOnce(ctx context.Context, people []string) (changed []string, err error) {
	began := uint64(r.Now().UnixMicro())
	// Before the links: rows that are written meanwhile are newer.
	before, err := readmodel.ReadLinked(ctx, r.Conn, people)
	if err != nil {
		return nil, err
	}
	links, err := r.readLinks(ctx, people)
	if err != nil {
		return nil, err
	}
	var rows []readmodel.LinkedRow
	var erased []string
	for _, id := range people {
		old, exists := before[id]
		if !exists {
			old.Account = readmodel.Unlinked()
		}
		if links.erased[id] {
			if exists {
				erased = append(erased, id)
			}
			continue
		}
		account, err := links.accountOf(id)
		if err != nil {
			return nil, fmt.Errorf("linked account: %w", err)
		}
		if account.Equal(old.Account) {
			continue
		}
		changed = append(changed, id)
		rows = append(rows, readmodel.LinkedRow{ProfileID: id, Ver: max(began, old.Ver+1), Account: account})
	}
	if err := r.announce(ctx, slices.Concat(changed, erased)); err != nil {
		return nil, err
	}
	if err := readmodel.InsertLinked(ctx, r.Conn, rows); err != nil {
		return nil, err
	}
	for _, row := range rows { // The person or the account may have been erased meanwhile.
		answer := links.accounts[row.Account.UserID]
		if r.isErased(links.people[row.ProfileID], row.ProfileID) || answer != nil && r.isAccountErased(answer) {
			erased = append(erased, row.ProfileID)
		}
	}
	if len(erased) == 0 {
		return changed, nil
	}
	layout, err := readmodel.FindLayout(ctx, r.Conn)
	if err != nil {
		return nil, err
	}
	return append(changed, erased...), readmodel.DropLinked(ctx, r.Conn, layout, erased)
}

func (r *Refresher) announce(ctx context.Context, people []string) error {
	if r.Announce == nil || len(people) == 0 {
		return nil
	}
	return r.Announce(ctx, people)
}

func (r *Refresher) isErased(p readmodel.LinkingPerson, id string) bool {
	_, erased := r.Suppressed.Subject(suppress.Subject{
		Platform: identity.Network, ID: id, Username: p.UsernameKey, Emails: p.EmailKeys,
	})
	return erased
}

func (r *Refresher) isAccountErased(a *readmodel.AnswerRow) bool {
	_, erased := r.Suppressed.Subject(suppress.Subject{
		Platform: identity.Codehost, ID: formatID(a.UserID), Username: a.UsernameKey, Emails: a.EmailKeys,
	})
	return erased
}

func formatID(id int64) string { return strconv.FormatInt(id, 10) }

// links are the stated links of people, without deleted and erased people and accounts.
type links struct {
	people   map[string]readmodel.LinkingPerson
	erased   map[string]bool                  // people without a row, or in the suppression set
	byPerson map[string][]readmodel.LookupRow // lookups of the usernames of people
	byName   map[string][]readmodel.LookupRow // lookups of the usernames of accounts
	accounts map[int64]*readmodel.AnswerRow
}

// readLinks reads the links of people and the accounts that they lead to.
func (r *Refresher) readLinks(ctx context.Context, people []string) (l links, err error) {
	if l.people, err = readmodel.ReadLinkingPeople(ctx, r.Conn, people); err != nil {
		return l, err
	}
	l.erased = make(map[string]bool)
	for _, id := range people {
		p, exists := l.people[id]
		if l.erased[id] = !exists || r.isErased(p, id); l.erased[id] || p.Deleted {
			delete(l.people, id)
		}
	}
	usernames := make(map[string]bool)
	for _, p := range l.people {
		if p.UsernameKey != "" {
			usernames[p.UsernameKey] = true
		}
	}
	l.byPerson, err = readmodel.Candidates(ctx, r.Conn, readmodel.LookupNetworkUsername, sorted(usernames))
	if err != nil {
		return l, err
	}
	names := make(map[string]bool)
	for _, p := range l.people {
		for _, name := range p.Declares[:min(len(p.Declares), maxDeclared)] {
			names[name] = true
		}
		for _, row := range l.byPerson[p.UsernameKey] {
			if name, ok := linkTo(row, identity.Codehost); ok {
				names[name] = true
			}
		}
	}
	l.byName, err = readmodel.Candidates(ctx, r.Conn, readmodel.LookupCodehostUsername, sorted(names))
	if err != nil {
		return l, err
	}
	ids := make(map[int64]bool)
	for _, list := range []map[string][]readmodel.LookupRow{l.byPerson, l.byName} {
		for _, rows := range list {
			for _, row := range rows {
				if id, ok := accountOf(row); ok {
					ids[id] = true
				}
			}
		}
	}
	if l.accounts, err = readmodel.ReadAnswers(ctx, r.Conn, slices.Sorted(maps.Keys(ids))); err != nil {
		return l, err
	}
	maps.DeleteFunc(l.accounts, func(_ int64, a *readmodel.AnswerRow) bool {
		return a.Deleted || a.IsOrganization() || r.isAccountErased(a)
	})
	return l, nil
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// linkTo returns the username of a platform that an account-link leads to.
func linkTo(row readmodel.LookupRow, platform string) (username string, ok bool) {
	if row.TargetKind != readmodel.TargetAccount {
		return "", false
	}
	return strings.CutPrefix(row.Target, platform+":")
}

// accountOf returns the account that a lookup leads to: one that has the username, or declares it.
func accountOf(row readmodel.LookupRow) (id int64, ok bool) {
	switch readmodel.LookupType(row.Type) {
	case readmodel.LookupCodehostUsername, readmodel.LookupCodehostNetworkUsername:
		id, err := strconv.ParseInt(row.Target, 10, 64)
		return id, err == nil
	}
	return 0, false
}

// accountOf returns the linked account of a person.
func (l links) accountOf(id string) (readmodel.LinkedAccount, error) {
	p, ok := l.people[id]
	if !ok {
		return readmodel.Unlinked(), nil
	}
	var rows resolution.Rows
	known := make(map[int64]bool)
	add := func(found []readmodel.LookupRow) {
		for _, row := range found {
			id, ok := accountOf(row)
			a := l.accounts[id]
			if !ok || a == nil || known[id] {
				continue
			}
			known[id] = true
			rows.Records = append(rows.Records, resolution.Record{
				Webset: resolution.Codehost, Identity: formatID(id), Username: a.UsernameKey,
				Declares: a.NetworkUsernameKeys, Updated: a.Version,
			})
		}
	}
	byPerson := l.byPerson[p.UsernameKey]
	add(byPerson)
	for _, name := range p.Declares[:min(len(p.Declares), maxDeclared)] {
		add(l.byName[name])
	}
	for _, row := range byPerson {
		name, ok := linkTo(row, identity.Codehost)
		if !ok {
			continue
		}
		add(l.byName[name])
		link := resolution.AccountLink{Declared: true, Confidence: float64(row.Confidence), Observed: row.Version}
		link.Usernames[resolution.Network], link.Usernames[resolution.Codehost] = p.UsernameKey, name
		rows.AccountLinks = append(rows.AccountLinks, link)
	}
	stated := resolution.Stated(rows, resolution.Network, p.UsernameKey, &resolution.Record{
		Webset: resolution.Network, Identity: id, Username: p.UsernameKey, Declares: p.Declares, Updated: p.Version,
	})
	if len(stated) == 0 {
		return readmodel.Unlinked(), nil
	}
	account, err := strconv.ParseInt(stated[0].To.Identity, 10, 64)
	if err != nil {
		return readmodel.Unlinked(), err
	}
	return l.accounts[account].Linked()
}
