package readmodel

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/identity"
	"muster/schemas/suppress"
)

// MaxHints is the maximum number of hints of a username that are read, and of those about one other username that are
// written. If there are more, they are incomplete.
const MaxHints = maxCandidates

const (
	// maxNamers is the maximum number of accounts that get hints for one username that they name.
	maxNamers = 10_000
	// hintKeys is the maximum number of usernames of a statement.
	hintKeys = 20_000
	// maxHintRows is the approximate maximum number of hints of an insert.
	maxHintRows = 100_000
)

// joins reports whether lookups of the type state who has a username of the two websets, or which accounts of the other
// one name it. Hints combine the two.
func (t LookupType) joins(target string) bool {
	switch t {
	case LookupNetworkUsername, LookupCodehostUsername, LookupCodehostNetworkUsername, LookupNetworkCodehostUsername:
		return true
	case LookupLinkCodehost:
		return strings.HasPrefix(target, identity.Network+":")
	case LookupLinkNetwork:
		return strings.HasPrefix(target, identity.Codehost+":")
	}
	return false
}

// joiningLookup is a lookup of a batch that joins.
type joiningLookup struct {
	hash                      uint64
	value, targetKind, target string // as in the claim
}

// LinkCandidates are records that a batch may have linked: of each two, one has a username that the other one or an
// account-link names.
type LinkCandidates struct {
	People   map[string]bool // network people of the batch
	Accounts map[int64]bool  // accounts of the code host: those of the batch, and those whom its other records concern
}

func noCandidates() LinkCandidates {
	return LinkCandidates{People: make(map[string]bool), Accounts: make(map[int64]bool)}
}

// Add adds other candidates.
func (c LinkCandidates) Add(other LinkCandidates) {
	maps.Copy(c.People, other.People)
	maps.Copy(c.Accounts, other.Accounts)
}

// addAccount adds the account of a decimal user ID; other texts, such as that of a namer without a record, are ignored.
func (c LinkCandidates) addAccount(userID string) {
	if id, err := strconv.ParseInt(userID, 10, 64); err == nil {
		c.Accounts[id] = true
	}
}

// insertHints writes the hints that rows of a batch change: for each account that names a username of the other webset,
// a copy of the lookups of this username under the account's own username, so that one read finds both. It is called
// after the rows are visible. So of two batches that are inserted at the same time, one with the username and one with
// the account that names it, the last one finds both. All hints of a username are written again, so that they have the
// same version whatever the batches were.
func insertHints(ctx context.Context, conn driver.Conn, into string, batches []*Batch) (LinkCandidates, error) {
	candidates := noCandidates()
	own := make(map[uint64][]joiningLookup)
	for _, b := range batches {
		for _, l := range b.lookups.joining {
			own[l.hash] = append(own[l.hash], l)
		}
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(own)), hintKeys) {
		var hints lookupTable
		err := readJoined(ctx, conn, into, part, func(j *joined) error {
			for _, l := range own[j.hash] {
				if l.value == j.username {
					j.addCandidates(candidates, l)
				}
			}
			return j.addHints(&hints, func() error { return hints.flush(ctx, conn, into) })
		})
		if err == nil {
			err = hints.flush(ctx, conn, into)
		}
		if err != nil {
			return candidates, fmt.Errorf("hints: %w", err)
		}
	}
	return candidates, nil
}

// flush inserts the hints and removes them from t.
func (t *lookupTable) flush(ctx context.Context, conn driver.Conn, into string) error {
	rows := table{"lookups", len(t.keyHash.list), t.columns}
	if rows.rows == 0 {
		return nil
	}
	// The same hints are inserted again after an erasure was lifted.
	token := "hints-" + strconv.FormatUint(rand.Uint64(), 36) //nolint:gosec // no key
	if err := insertTable(ctx, conn, into, token, []table{rows}); err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	*t = lookupTable{}
	return nil
}

// joined are the lookups of a username of one webset that records have and others of the other webset name.
type joined struct {
	hash     uint64
	network  bool // a username of the network; else of the code host
	username string
	ver      big.Int // the newest of the lookups of those who have it, and its source
	at       Position
	holders  []string // identities of the records that have it
	// namers name it: the username of an account, a space and the identity of its record, or the username that an
	// account-link names.
	namers []string
}

// readJoined reads the joined lookups of usernames, by KeyHash, from a table like lookups. The statement splits claims
// itself, because ClickHouse cannot send conditions on alias columns to other nodes.
func readJoined(ctx context.Context, conn driver.Conn, from string, keys []uint64, each func(*joined) error) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(longStatement()))
	return readRows(ctx, conn, joinedQuery(from, keys), func(rows driver.Rows) error {
		var j joined
		err := rows.Scan(&j.hash, &j.network, &j.username, &j.ver, &j.at.Topic, &j.at.Partition, &j.at.Offset, &j.holders,
			&j.namers)
		if err != nil {
			return err //nolint:wrapcheck // insertHints wraps it
		}
		return each(&j)
	})
}

func joinedQuery(from string, keys []uint64) string {
	list := func(types ...LookupType) string {
		names := make([]string, len(types))
		for i, t := range types {
			names[i] = "'" + string(t) + "'"
		}
		return "(" + strings.Join(names, ", ") + ")"
	}
	return `SELECT key_hash, network, claim[2] AS username, maxIf(ver, holds),
    argMaxIf(topic, ver, holds), argMaxIf(partition, ver, holds), argMaxIf(offset, ver, holds),
    groupUniqArrayIf(` + strconv.Itoa(MaxHints) + `)(claim[4], holds) AS holders,
    groupUniqArrayIf(` + strconv.Itoa(maxNamers) + `)(namer, namer != '') AS namers
FROM (
    SELECT key_hash, splitByChar(char(0), claim) AS claim, ver, topic, partition, offset,
        claim[1] IN ` + list(LookupNetworkUsername, LookupCodehostNetworkUsername, LookupLinkNetwork) + ` AS network,
        claim[1] IN ` + list(LookupNetworkUsername, LookupCodehostUsername) + ` AS holds,
        multiIf(claim[1] IN ` + list(LookupCodehostNetworkUsername, LookupNetworkCodehostUsername) + `,
            concat(claim[5], ' ', claim[4]),
            claim[1] = '` + string(LookupLinkNetwork) + `' AND startsWith(claim[4], 'codehost:') OR
            claim[1] = '` + string(LookupLinkCodehost) + `' AND startsWith(claim[4], 'network:'),
            splitByChar(':', claim[4], 2)[2], '') AS namer
    FROM (SELECT key_hash, claim, ver, topic, partition, offset FROM ` + from +
		` WHERE key_hash IN (` + numbers(keys) + `))
)
WHERE holds OR namer != ''
GROUP BY key_hash, network, username
HAVING notEmpty(holders) AND notEmpty(namers)`
}

// addHints adds the hints. It calls full when there are maxHintRows.
func (j *joined) addHints(hints *lookupTable, full func() error) error {
	kind, holderKind := LookupHintCodehost, TargetCodehostPerson
	if j.network {
		kind, holderKind = LookupHintNetwork, TargetNetworkPerson
	}
	for _, namer := range j.namers {
		name, _, _ := strings.Cut(namer, " ")
		if name == "" {
			continue
		}
		if len(hints.keyHash.list) >= maxHintRows {
			if err := full(); err != nil {
				return err
			}
		}
		key := KeyHash(kind, name)
		for _, holder := range j.holders {
			hints.keyHash.add(key)
			hints.claim.add(appendClaim(nil, kind, j.username, holderKind, holder, namer))
			hints.ver.addNumber(&j.ver)
			hints.confidence.add(1)
			hints.topic.add(j.at.Topic)
			hints.partition.add(j.at.Partition)
			hints.offset.add(j.at.Offset)
		}
	}
	return nil
}

// addCandidates adds a record of the batch, and the accounts that it is joined with.
func (j *joined) addCandidates(to LinkCandidates, l joiningLookup) {
	switch l.targetKind {
	case TargetNetworkPerson:
		to.People[l.target] = true
	case TargetCodehostPerson:
		to.addAccount(l.target)
		return
	}
	if !j.network {
		for _, holder := range j.holders {
			to.addAccount(holder)
		}
		return
	}
	for _, namer := range j.namers {
		_, id, _ := strings.Cut(namer, " ")
		to.addAccount(id)
	}
}

// Namer returns the username that names the value of a hint, and the identity of the record that does; it is empty for
// an account-link.
func (r *LookupRow) Namer() (username, identity string) {
	username, identity, _ = strings.Cut(r.Source, " ")
	return username, identity
}

// NamerSuppressed reports whether a row is a hint that an erased account got.
func (r *LookupRow) NamerSuppressed(suppressed *suppress.Set) bool {
	platform := identity.Codehost
	switch LookupType(r.Type) {
	case LookupHintCodehost:
		platform = identity.Network
	case LookupHintNetwork:
	default:
		return false
	}
	username, id := r.Namer()
	_, account := suppressed.Account(platform, username)
	_, record := suppressed.ID(platform, id)
	return account || id != "" && record
}

// Named returns the usernames of a platform that lookups of a username of the other one name: the records that have
// them are among the hints. kind is the lookup type of the username, link that of its account-links. Where the lookups
// or the hints are incomplete, it returns none.
func Named(rows []LookupRow, kind, link LookupType, username, platform string) []string {
	var out []string
	hints := 0
	for _, r := range rows {
		if r.cut {
			return nil
		}
		switch {
		case strings.HasPrefix(r.Type, "hint."):
			if hints++; hints == MaxHints {
				return nil
			}
		case r.Value != username:
		case r.Type == string(kind):
			out = append(out, r.Declares()...)
		case r.Type == string(link) && r.TargetKind == TargetAccount:
			if name, ok := strings.CutPrefix(r.Target, platform+":"); ok {
				out = append(out, name)
			}
		}
	}
	return out
}
