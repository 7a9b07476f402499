package readstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"

	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
)

// Discovery returns the newest stored result for an account, nil if there is none. usernameKey is a comparison form.
func (s *Store) Discovery(ctx context.Context, platform, usernameKey string) (*event.Discovery, error) {
	found, err := s.discoveries.Get(ctx, []uint64{readmodel.DiscoveryHash(platform, usernameKey)})
	if err != nil {
		return nil, err
	}
	for _, r := range found[0] {
		if r.Platform != platform || r.UsernameKey != usernameKey {
			continue
		}
		var d event.Discovery
		if err := json.Unmarshal([]byte(r.Result), &d); err != nil {
			return nil, fmt.Errorf("decode stored discovery: %w", err)
		}
		s.suppressed.RedactDiscovery(&d)
		return &d, nil
	}
	return nil, nil
}

// Redact removes erased people from a discovery result.
func (s *Store) Redact(d *event.Discovery) { s.suppressed.RedactDiscovery(d) }

// RedactIdentification removes erased people from an identification.
func (s *Store) RedactIdentification(d *event.Identification) { s.suppressed.RedactIdentification(d) }

// StillValid reports whether the accounts of a stored result have the same owners: no username has moved to another
// account, and no record was deleted (records.md, rules 2 and 3).
func (s *Store) StillValid(ctx context.Context, d *event.Discovery) (bool, error) {
	reading := s.session()
	keys := make([]lookupKey, len(d.Socials))
	for i, p := range d.Socials {
		keys[i] = lookupKey{readmodel.LookupType(p.Platform + ".username"), identity.NormalizeUsername(p.Username)}
	}
	if err := reading.ask(ctx, keys...); err != nil {
		return false, err
	}
	for i, p := range d.Socials {
		// There was no record, or it has no username to look it up.
		if p.Identity == "" || keys[i].value == "" {
			continue
		}
		var valid bool
		var err error
		switch p.Platform {
		case identity.Network:
			valid, err = reading.stillValid(ctx, networkPlatform(), keys[i].value, p.Identity)
		case identity.Codehost:
			valid, err = reading.stillValid(ctx, codehostPlatform(), keys[i].value, p.Identity)
		case identity.Microblog:
			valid, err = s.microblogStillValid(ctx, keys[i].value, p.Identity)
		}
		if err != nil || !valid {
			return false, err
		}
	}
	return true, nil
}

// stillValid reports whether an account still has a username.
func (s *session) stillValid(ctx context.Context, p platform, username, id string) (bool, error) {
	owner, err := s.holder(ctx, p, username)
	if err != nil || owner != nil || p.name != identity.Codehost {
		return owner.identityOf() == id, err
	}
	// An account that the worker looked up at the code host itself may never have had a record.
	user, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return false, nil //nolint:nilerr // not a code-host ID
	}
	var row *readmodel.AnswerRow
	err = getOne(ctx, s.store.codehost, user, &row)
	return row == nil, err
}

func (s *Store) microblogStillValid(ctx context.Context, username, id string) (bool, error) {
	var holders []*readmodel.ProfileRow
	err := getOne(ctx, s.microblog, readmodel.KeyHash(readmodel.LookupMicroblogUsername, username), &holders)
	if err != nil || len(holders) == 0 {
		return false, err
	}
	newest := slices.MaxFunc(holders, func(a, b *readmodel.ProfileRow) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(b.ID, a.ID))
	})
	return newest.ID == id, nil
}

// microblogHolders reads the current owners of microblog usernames, by KeyHash.
func (s *Store) microblogHolders(ctx context.Context, keys []uint64) (map[uint64][]*readmodel.ProfileRow, error) {
	var rows []*readmodel.ProfileRow
	err := s.query(ctx, microblogTable, readmodel.UsernameHistoryQuery(identity.Microblog), readmodel.FormatKeys(keys),
		len(keys),
		func(list driver.Rows) error {
			r := new(readmodel.ProfileRow)
			rows = append(rows, r)
			return list.Scan(r.ScanDest()...)
		})
	found := make(map[uint64][]*readmodel.ProfileRow, len(keys))
	for _, r := range readmodel.NewestProfiles(rows) {
		_, erased := s.suppressed.Subject(suppress.Subject{Platform: r.Platform, ID: r.ID, Username: r.UsernameKey})
		if !r.Deleted && !erased {
			k := readmodel.KeyHash(readmodel.LookupMicroblogUsername, r.UsernameKey)
			found[k] = append(found[k], r)
		}
	}
	return found, err
}

const microblogTable = "microblog_people"
