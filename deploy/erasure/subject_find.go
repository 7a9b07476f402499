package erasure

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json/jsontext"

	ch "muster/platform/clickhouse"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// maxAccounts is the maximum number of accounts in a report.
const maxAccounts = 200

// errTooMany reports that the identifiers match too many accounts.
var errTooMany = fmt.Errorf("too many matches: the identifiers match more than %d accounts; pass fewer", maxAccounts)

// SubjectAccount is an account of the person.
type SubjectAccount struct {
	Platform string `json:"platform"`
	ID       string `json:"id"`
	// Usernames are the normalized usernames of its stored rows.
	Usernames []string `json:"usernames,omitempty"`
	// Linked reports that the account does not match an identifier, but has a mutual link with one that does.
	Linked bool `json:"linked,omitzero"`
}

// wanted are the identifiers to find, by type: normalized values, and SHA-256 hashes of such in hexadecimal.
type wanted struct{ values, sums map[suppress.Type][]string }

func newWanted(identifiers []record.ErasureIdentifier) (wanted, error) {
	w := wanted{map[suppress.Type][]string{}, map[suppress.Type][]string{}}
	for _, i := range identifiers {
		t := suppress.Type(i.Type)
		if i.SHA256 != "" {
			if raw, err := hex.DecodeString(i.SHA256); err != nil || len(raw) != 32 {
				return w, fmt.Errorf("%s: invalid SHA-256: want 64 hexadecimal digits", i.Type)
			}
			w.sums[t] = append(w.sums[t], strings.ToLower(i.SHA256))
			continue
		}
		standard, err := suppress.Normalize(t, string(i.Value))
		if err != nil {
			return w, fmt.Errorf("%s %w", i.Type, err)
		}
		w.values[t] = append(w.values[t], standard)
	}
	return w, nil
}

// people is a table of people, with the types of its identifiers and the kind of its records.
type people struct {
	readmodel.PeopleTable
	kind                 string
	idType, usernameType suppress.Type
}

func tablesOfPeople() []people {
	out := make([]people, 0, 3)
	for _, t := range readmodel.PeopleTables() {
		p := people{t, readmodel.TargetNetworkPerson, suppress.ProfileID, suppress.NetworkUsername}
		switch t.Platform {
		case identity.Codehost:
			p = people{t, readmodel.TargetCodehostPerson, suppress.UserID, suppress.CodehostUsername}
		case identity.Microblog:
			p = people{t, readmodel.TargetMicroblogPerson, suppress.MicroblogUserID, suppress.MicroblogUsername}
		}
		out = append(out, p)
	}
	return out
}

// person is what was found about the person, as parameters of queries.
type person struct {
	accounts map[string]map[string]*SubjectAccount // platform, id
	// named are accounts as "platform:username", including those that are only in the request.
	named map[string]bool
	// emails are the addresses in the request and of the accounts, and emailSums the SHA-256 hashes in the request.
	emails    map[string]bool
	emailSums []string
}

func (p *person) add(platform, id string, linked bool) (*SubjectAccount, bool) {
	if a := p.accounts[platform][id]; a != nil {
		return a, false
	}
	if p.accounts[platform] == nil {
		p.accounts[platform] = map[string]*SubjectAccount{}
	}
	a := &SubjectAccount{Platform: platform, ID: id, Linked: linked}
	p.accounts[platform][id] = a
	return a, true
}

func (p *person) ids(platform string) []string {
	return slices.Sorted(maps.Keys(p.accounts[platform]))
}

func (p *person) count() (n int) {
	for _, ids := range p.accounts {
		n += len(ids)
	}
	return n
}

func (p *person) list() []SubjectAccount {
	out := []SubjectAccount{}
	for _, platform := range slices.Sorted(maps.Keys(p.accounts)) {
		for _, id := range p.ids(platform) {
			out = append(out, *p.accounts[platform][id])
		}
	}
	return out
}

// find finds the accounts with any of the identifiers.
func find(ctx context.Context, conn driver.Conn, w wanted) (*person, error) {
	p := &person{map[string]map[string]*SubjectAccount{}, map[string]bool{}, map[string]bool{}, w.sums[suppress.Email]}
	for _, address := range w.values[suppress.Email] {
		p.emails[address] = true
	}
	for _, t := range tablesOfPeople() {
		for _, id := range w.values[t.idType] {
			p.add(t.Platform, id, false) // an account may have rows without a profile
		}
		for _, name := range w.values[t.usernameType] {
			p.named[t.Platform+":"+name] = true
		}
	}
	if err := p.read(ctx, conn, w); err != nil {
		return nil, err
	}
	for before := -1; before != p.count(); {
		before = p.count()
		for _, t := range tablesOfPeople() {
			if err := p.match(ctx, conn, t, w); err != nil {
				return nil, fmt.Errorf("search %s: %w", t.Name, err)
			}
		}
		if p.count() > maxAccounts {
			return nil, errTooMany
		}
		for _, s := range []struct{ from, to string }{{identity.Network, identity.Codehost},
			{identity.Codehost, identity.Network}} {
			query := readmodel.MutualAccountsQuery(s.from)
			err := ch.ReadRows(withParameters(ctx, parameters{"ids": p.ids(s.from)}), conn, query,
				func(rows driver.Rows) error {
					var from, to, username string
					if err := rows.Scan(&from, &to, &username); err != nil {
						return err
					}
					p.add(s.to, to, true)
					return nil
				})
			if err != nil {
				return nil, fmt.Errorf("search for linked accounts: %w", err)
			}
		}
	}
	return p, nil
}

// sumsOf returns the SHA-256 hashes of the identifiers of a type in hexadecimal, as a set.
func (w wanted) sumsOf(t suppress.Type) map[string]bool {
	out := make(map[string]bool)
	for _, sum := range w.sums[t] {
		out[sum] = true
	}
	for _, standard := range w.values[t] {
		sum := suppress.Sum(standard)
		out[hex.EncodeToString(sum[:])] = true
	}
	return out
}

// read adds the accounts whose records have an address or a telephone number in any field, also one outside the schema,
// which has no column. It reads all records that may have one.
func (p *person) read(ctx context.Context, conn driver.Conn, w wanted) error {
	emails, phones := w.sumsOf(suppress.Email), w.sumsOf(suppress.Phone)
	if len(emails)+len(phones) == 0 {
		return nil
	}
	var may []string
	if len(emails) > 0 {
		may = append(may, "position(members, '@') > 0")
	}
	if len(phones) > 0 {
		may = append(may, "match(members, '[0-9]([^0-9]{0,3}[0-9]){6}')")
	}
	for _, t := range readmodel.PeopleTables() {
		if t.Members() == "" {
			continue
		}
		query := "SELECT " + t.ID + ", concat('{', " + t.Members() + " AS members, '}') FROM " + t.Name + " WHERE " +
			strings.Join(may, " OR ")
		err := ch.ReadRows(ctx, conn, query, func(rows driver.Rows) error {
			var id, body string
			if err := rows.Scan(&id, &body); err != nil {
				return err
			}
			if hasContact([]byte(body), emails, phones) {
				p.add(t.Platform, id, false)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read the records of %s: %w", t.Name, err)
		}
	}
	return nil
}

// maxContact is the maximum length of strings that may be an address or a telephone number, in bytes.
const maxContact = 320

// hasContact reports whether a string in a record equals one of the addresses or telephone numbers, given by their
// SHA-256 hashes.
func hasContact(body []byte, emails, phones map[string]bool) bool {
	is := func(t suppress.Type, wanted map[string]bool, text string) bool {
		standard, err := suppress.Normalize(t, text)
		if len(wanted) == 0 || err != nil {
			return false
		}
		sum := suppress.Sum(standard)
		return wanted[hex.EncodeToString(sum[:])]
	}
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true))
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return false // the end, or a record damaged in storage
		}
		if k := token.Kind(); k != '"' && k != '0' {
			continue
		}
		text := token.String()
		if len(text) > maxContact {
			continue
		}
		if strings.Contains(text, "@") && is(suppress.Email, emails, text) || is(suppress.Phone, phones, text) {
			return true
		}
	}
}

// match adds the accounts in one table that have an identifier, and the usernames of known accounts.
func (p *person) match(ctx context.Context, conn driver.Conn, t people, w wanted) error {
	params := parameters{
		"ids": p.ids(t.Platform), "names": w.values[t.usernameType], "emails": w.values[suppress.Email],
		"id_sums": w.sums[t.idType], "name_sums": w.sums[t.usernameType], "email_sums": w.sums[suppress.Email],
	}
	const sum = "lower(hex(SHA256(%s))) IN {%s:Array(String)}"
	where := []string{t.ID + " IN {ids:Array(String)}", t.Username + " IN {names:Array(String)}",
		"hasAny(" + t.Emails + ", {emails:Array(String)})"}
	if len(params["id_sums"]) > 0 {
		where = append(where, fmt.Sprintf(sum, t.ID, "id_sums"))
	}
	if len(params["name_sums"]) > 0 {
		where = append(where, fmt.Sprintf(sum, t.Username, "name_sums"))
	}
	if len(params["email_sums"]) > 0 {
		where = append(where, "arrayExists(e -> "+fmt.Sprintf(sum, "e", "email_sums")+", "+t.Emails+")")
	}
	query := fmt.Sprintf("SELECT DISTINCT %s, %s, %s FROM %s WHERE %s LIMIT %d", t.ID, t.Username, t.Emails, t.Name,
		strings.Join(where, " OR "), 100*maxAccounts)
	return ch.ReadRows(withParameters(ctx, params), conn, query, func(rows driver.Rows) error {
		var id, username string
		var emails []string
		if err := rows.Scan(&id, &username, &emails); err != nil {
			return err
		}
		a, _ := p.add(t.Platform, id, false)
		for _, address := range emails {
			p.emails[address] = true
		}
		if username != "" && !slices.Contains(a.Usernames, username) {
			a.Usernames = append(a.Usernames, username)
			p.named[t.Platform+":"+username] = true
		}
		return nil
	})
}

// parameters are arrays of strings by the names of query parameters.
type parameters map[string][]string

// withParameters returns a context whose queries have parameters.
func withParameters(ctx context.Context, p parameters) context.Context {
	out := make(clickhouse.Parameters, len(p))
	escape := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	for name, list := range p {
		quoted := make([]string, len(list))
		for i, s := range list {
			quoted[i] = "'" + escape.Replace(s) + "'"
		}
		out[name] = "[" + strings.Join(quoted, ",") + "]"
	}
	return clickhouse.Context(ctx, clickhouse.WithParameters(out))
}
