package gitlog

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"muster/schemas/identity"
)

// Account is an account of the code host.
type Account struct {
	ID       int64
	Username string
}

// made is the account number that stands for a text: 52 bits of its hash above
// 2^52. Numbers below 2^53 are exact everywhere, and no code host counts so far.
func made(text string) int64 {
	sum := sha256.Sum256([]byte(text))
	return int64(1)<<52 | int64(binary.BigEndian.Uint64(sum[:8])>>12)
}

func madeName(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "git-" + hex.EncodeToString(sum[:6])
}

// Authors are the accounts of e-mail addresses that an operator knows.
type Authors map[string]Account

// ReadAuthors reads a CSV file with the columns email, user_id and username, in
// any order, others beside them.
func ReadAuthors(path string) (authors Authors, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("authors: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := csv.NewReader(f)
	header, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("authors %s: read the header: %w", path, err)
	}
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	var at [3]int
	for i, name := range []string{"email", "user_id", "username"} {
		if at[i] = slices.Index(header, name); at[i] < 0 {
			return nil, fmt.Errorf("authors %s: the header has no column %q; it needs email, user_id, username", path, name)
		}
	}
	authors = Authors{}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return authors, nil
		}
		if err != nil {
			return nil, fmt.Errorf("authors %s: %w", path, err)
		}
		line, _ := r.FieldPos(0)
		if row[at[1]] == "" && row[at[2]] == "" {
			continue // a template that is not filled in here
		}
		id, err := strconv.ParseInt(strings.TrimSpace(row[at[1]]), 10, 64)
		if err != nil || id <= 0 {
			return nil, fmt.Errorf("authors %s: line %d: user_id must be a positive integer", path, line)
		}
		if strings.TrimSpace(row[at[2]]) == "" {
			return nil, fmt.Errorf("authors %s: line %d: username is empty", path, line)
		}
		authors[address(row[at[0]])] = Account{ID: id, Username: strings.TrimSpace(row[at[2]])}
	}
}

// address is the form in which addresses are compared.
func address(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// accounts finds the accounts of the addresses of one history.
type accounts struct {
	opts      Options
	platforms *identity.Platforms
	mailmap   mailmap
	byName    map[string]Account // by username in lower case, as found so far
}

func newAccounts(opts Options, m mailmap) *accounts {
	a := &accounts{opts: opts, platforms: identity.Default(), mailmap: m, byName: map[string]Account{}}
	for _, known := range opts.Authors {
		a.byName[strings.ToLower(known.Username)] = known
	}
	for group := range m.aliases {
		for _, alias := range m.aliases[group] {
			a.direct(alias) // learns the username
		}
	}
	return a
}

// of returns the account of an address.
func (a *accounts) of(email string) (Account, bool) {
	email = address(email)
	if found, ok := a.direct(email); ok {
		return found, true
	}
	others := a.mailmap.others(email)
	for _, alias := range others {
		if found, ok := a.direct(alias); ok {
			return found, true
		}
	}
	for _, alias := range append([]string{email}, others...) {
		if _, username, ok := a.platforms.NoReply(alias, a.opts.NoReplyHosts...); ok {
			if found, ok := a.byName[strings.ToLower(username)]; ok {
				return found, true
			}
		}
	}
	if !a.opts.MakeAccounts || email == "" {
		return Account{}, false
	}
	// All addresses of one author lead to the same account.
	main := slices.Min(append([]string{email}, others...))
	account := Account{ID: made(main), Username: madeName(main)}
	if _, username, ok := a.platforms.NoReply(main, a.opts.NoReplyHosts...); ok {
		account.Username = username
	}
	return account, true
}

// direct returns the account that an address leads to by itself.
func (a *accounts) direct(email string) (Account, bool) {
	if found, ok := a.opts.Authors[email]; ok {
		return found, true
	}
	id, username, ok := a.platforms.NoReply(email, a.opts.NoReplyHosts...)
	if !ok || id == 0 {
		return Account{}, false
	}
	found := Account{ID: id, Username: username}
	if key := strings.ToLower(username); a.byName[key].ID == 0 {
		a.byName[key] = found
	}
	return found, true
}

// isNoReply tells addresses that nobody can be reached at.
func (a *accounts) isNoReply(email string) bool {
	_, _, ok := a.platforms.NoReply(email, a.opts.NoReplyHosts...)
	return ok
}

// mailmap is what a .mailmap file says (gitmailmap(5)): which addresses are one
// author's, and how authors are properly called.
type mailmap struct {
	group   map[string]string   // the proper address of an address
	aliases map[string][]string // all addresses of a proper address
	names   map[string]string   // the proper name of an address
}

// maxMailmap bounds a .mailmap file, in bytes.
const maxMailmap = 1 << 20

var mailmapAddress = regexp.MustCompile(`<([^<>]*)>`)

func parseMailmap(text []byte) mailmap {
	m := mailmap{group: map[string]string{}, aliases: map[string][]string{}, names: map[string]string{}}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		found := mailmapAddress.FindAllStringSubmatchIndex(line, 2)
		if len(found) == 0 {
			continue
		}
		proper := address(line[found[0][2]:found[0][3]])
		name := strings.TrimSpace(line[:found[0][0]])
		if name != "" {
			m.names[proper] = name
		}
		m.join(proper, proper)
		if len(found) == 2 {
			commit := address(line[found[1][2]:found[1][3]])
			m.join(proper, commit)
			if name != "" {
				m.names[commit] = name
			}
		}
	}
	return m
}

func (m mailmap) join(proper, alias string) {
	if _, ok := m.group[alias]; ok || alias == "" {
		return
	}
	if group, ok := m.group[proper]; ok {
		proper = group
	}
	m.group[alias] = proper
	m.aliases[proper] = append(m.aliases[proper], alias)
}

// others returns the other addresses of an address's author.
func (m mailmap) others(email string) []string {
	group, ok := m.group[email]
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(m.aliases[group]), func(s string) bool { return s == email })
}
