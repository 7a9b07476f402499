package readstore

import (
	"context"
	"slices"
	"strconv"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"

	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// discoveredLink describes the discovered link that led to a record: its source account and confidence. It is part of
// the response.
type discoveredLink struct {
	platform, username string
	confidence         float64
}

// appendDiscovered appends the member that marks a record as reached by a discovered link; nil is a declared link,
// which needs no mark.
func appendDiscovered(b []byte, by *discoveredLink) []byte {
	if by == nil {
		return b
	}
	b = append(appendName(b, "discovered_link"), '{')
	b = appendString(b, "platform", by.platform)
	b = appendString(b, "username", by.username)
	b = strconv.AppendFloat(appendName(b, "confidence"), by.confidence, 'f', -1, 64)
	return append(b, '}')
}

// discoveredStatement states that, by a stored discovery result, two accounts belong to one person.
type discoveredStatement struct {
	input, found event.Social
	confidence   float64
	version      int64
}

// readDiscovered reads the links that stored results of discovery have for accounts, by DiscoveryHash. Most have none.
func (s *Store) readDiscovered(ctx context.Context, keys []uint64) (map[uint64][]discoveredStatement, error) {
	inputs, err := readmodel.ReadDiscoveredInputs(func(query string, scan func(driver.Rows) error) error {
		return s.query(ctx, readmodel.DiscoveredTable, query, readmodel.FormatKeys(keys), len(keys), scan)
	})
	found := make(map[uint64][]discoveredStatement)
	scan := func(rows driver.Rows) error {
		var r readmodel.DiscoveryRow
		if err := rows.Scan(r.ScanDest()...); err != nil {
			return err
		}
		addDiscovered(found, &r)
		return nil
	}
	for part := range slices.Chunk(inputs, readmodel.MaxKeys) {
		if err == nil {
			keys := readmodel.FormatKeys(part)
			err = s.query(ctx, readmodel.DiscoveryTable, readmodel.DiscoveriesQuery(), keys, len(part), scan)
		}
	}
	return found, err
}

// addDiscovered adds the links of a stored result under both accounts.
func addDiscovered(found map[uint64][]discoveredStatement, r *readmodel.DiscoveryRow) {
	var d event.Discovery
	if json.Unmarshal([]byte(r.Result), &d) != nil || d.Validate() != nil || !d.Complete() {
		return
	}
	for _, s := range d.Socials[1:] {
		if s.Confidence < readmodel.DiscoveredConfidence {
			continue
		}
		// The input has the username of the request.
		input := d.Socials[0]
		input.Account = d.Input
		st := discoveredStatement{input, s, s.Confidence, d.At.UnixMicro()}
		for _, a := range []event.Account{d.Input, s.Account} {
			h := readmodel.DiscoveryHash(a.Platform, identity.NormalizeUsername(a.Username))
			found[h] = append(found[h], st)
		}
	}
}

// identityOf returns the stable ID of a record as used by discovery; empty if p is nil.
func (p *person) identityOf() string {
	switch {
	case p == nil:
		return ""
	case p.network != nil:
		return p.network.ProfileID
	}
	return strconv.FormatInt(p.codehost.UserID, 10)
}

func (p *person) username() string {
	if p.network != nil {
		return p.network.Username
	}
	return p.codehost.CodehostUsername
}
