package gitlog

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
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

// syntheticID derives an account ID from a string: 52 bits of its hash above 2^52. Integers below
// 2^53 are exact in all JSON implementations, and no code host has reached this range.
func syntheticID(text string) int64 {
	sum := sha256.Sum256([]byte(text))
	return int64(1)<<52 | int64(binary.BigEndian.Uint64(sum[:8])>>12)
}

func syntheticUsername(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "git-" + hex.EncodeToString(sum[:6])
}

// Authors maps e-mail addresses to accounts, as provided by the operator.
type Authors map[string]Account

// ReadAuthors reads a CSV file with the columns email, user_id and username, in any order. Other
// columns are ignored.
func ReadAuthors(path string) (authors Authors, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("authors: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := csv.NewReader(f)
	header, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("authors %s: read header: %w", path, err)
	}
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	var columns [3]int
	for i, name := range []string{"email", "user_id", "username"} {
		if columns[i] = slices.Index(header, name); columns[i] < 0 {
			return nil, fmt.Errorf("authors %s: missing column %q; required columns: email, user_id, username", path,
				name)
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
		if row[columns[1]] == "" && row[columns[2]] == "" {
			// A template row that is not completed.
			continue
		}
		id, err := strconv.ParseInt(strings.TrimSpace(row[columns[1]]), 10, 64)
		if err != nil || id <= 0 {
			return nil, fmt.Errorf("authors %s: line %d: user_id must be a positive integer", path, line)
		}
		if strings.TrimSpace(row[columns[2]]) == "" {
			return nil, fmt.Errorf("authors %s: line %d: username is empty", path, line)
		}
		authors[address(row[columns[0]])] = Account{ID: id, Username: strings.TrimSpace(row[columns[2]])}
	}
}

// address normalizes an address for comparison.
func address(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// accounts resolves the authors of one history to accounts.
type accounts struct {
	opts      Options
	platforms *identity.Platforms
	mailmap   mailmap
	byName    map[string]Account // by username in lower case; grows with the addresses read
	// learn reads the no-reply addresses of the full history. It is called at most once, for the
	// first username without an ID.
	learn func() error
}

func newAccounts(opts Options, m mailmap, learn func() error) *accounts {
	a := &accounts{opts: opts, platforms: identity.Default(), mailmap: m, byName: map[string]Account{}, learn: learn}
	for _, author := range opts.Authors {
		a.byName[strings.ToLower(author.Username)] = author
	}
	for _, e := range m.entries {
		a.byNoReply(e.email)
	}
	return a
}

// resolve returns the account of an author.
func (a *accounts) resolve(author author) (Account, bool, error) {
	proper := address(author.email)
	var ownAddresses []string // addresses that only this author uses
	if !author.byName {
		ownAddresses = append(ownAddresses, author.commitEmail)
		if found, ok := a.byAddress(author.commitEmail); ok {
			return found, true, nil
		}
	}
	if found, ok := a.byAddress(author.email); ok {
		return found, true, nil
	}
	ownAddresses = append(ownAddresses, author.email)
	for _, alias := range a.mailmap.aliases[fold(author.email)] {
		ownAddresses = append(ownAddresses, alias)
		if found, ok := a.byNoReply(alias); ok {
			return found, true, nil
		}
		if found, ok := a.opts.Authors[address(alias)]; ok && !a.mailmap.requiresName(alias) {
			return found, true, nil
		}
	}
	username, found, err := a.byUsername(ownAddresses)
	if err != nil || found.ID != 0 {
		return found, err == nil, err
	}
	if !a.opts.MakeAccounts || proper == "" {
		return Account{}, false, nil
	}
	// The proper address is the same for all addresses of one author.
	if username == "" {
		username = syntheticUsername(proper)
	}
	return Account{ID: syntheticID(proper), Username: username}, true, nil
}

// byUsername returns the username in the first no-reply address, and its account if another address has the ID.
func (a *accounts) byUsername(addresses []string) (string, Account, error) {
	first := ""
	for _, alias := range addresses {
		_, username, ok := a.platforms.NoReply(alias, a.opts.NoReplyHosts...)
		if !ok {
			continue
		}
		key := strings.ToLower(username)
		if a.byName[key].ID == 0 && a.learn != nil {
			learn := a.learn
			a.learn = nil
			if err := learn(); err != nil {
				return "", Account{}, err
			}
		}
		if found := a.byName[key]; found.ID != 0 {
			return username, found, nil
		}
		if first == "" {
			first = username
		}
	}
	return first, Account{}, nil
}

// byAddress returns the account that an address identifies by itself.
func (a *accounts) byAddress(email string) (Account, bool) {
	if found, ok := a.opts.Authors[address(email)]; ok {
		return found, true
	}
	return a.byNoReply(email)
}

// byNoReply returns the account of a no-reply address with an ID, and records its username.
func (a *accounts) byNoReply(email string) (Account, bool) {
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

// reachable reports whether an address can receive mail: it is not empty, not too long, and not a
// no-reply address.
func (a *accounts) reachable(email string) bool {
	local, host, ok := strings.Cut(email, "@")
	if !ok || local == "" || host == "" || len(email) > maxText {
		return false
	}
	if _, _, ok := a.platforms.NoReply(email, a.opts.NoReplyHosts...); ok {
		return false
	}
	return !isNoReply(local) && !slices.ContainsFunc(strings.Split(host, "."), isNoReply)
}

// accountType returns the type of an account if its username implies one.
func (a Account) accountType() string {
	if strings.HasSuffix(a.Username, "[bot]") {
		return "Bot"
	}
	return ""
}

func isNoReply(s string) bool { return s == "noreply" || s == "no-reply" || s == "donotreply" }
