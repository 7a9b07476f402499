package readmodel

import (
	"context"
	"fmt"
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

// insertHints writes the hints that rows of a batch change: for each account that names a username of the other webset,
// a copy of the lookups of this username under the account's own username, so that one read finds both. It is called
// after the rows are visible. So of two batches that are inserted at the same time, one with the username and one with
// the account that names it, the last one finds both.
func insertHints(ctx context.Context, conn driver.Conn, table string, batches []*Batch) error {
	var keys []uint64
	for _, b := range batches {
		keys = append(keys, b.lookups.joined...)
	}
	slices.Sort(keys)
	settings := longStatement()
	settings["parallel_distributed_insert_select"] = 0 // A hint belongs to another shard than its username.
	// The same hints are inserted again after an erasure was lifted.
	settings["insert_deduplicate"] = 0
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(settings))
	for part := range slices.Chunk(slices.Compact(keys), hintKeys) {
		if err := conn.Exec(ctx, hintsStatement(table, part)); err != nil {
			return fmt.Errorf("insert hints: %w", err)
		}
	}
	return nil
}

// hintsStatement returns the statement that writes the hints for usernames, by KeyHash. It splits claims itself,
// because ClickHouse cannot send conditions on alias columns to other nodes.
func hintsStatement(table string, keys []uint64) string {
	list := func(types ...LookupType) string {
		names := make([]string, len(types))
		for i, t := range types {
			names[i] = "'" + string(t) + "'"
		}
		return "(" + strings.Join(names, ", ") + ")"
	}
	return `INSERT INTO ` + table + ` (key_hash, claim, ver, confidence, topic, partition, offset)
SELECT xxHash64(concat(namers, ' username', char(0), splitByChar(' ', namer)[1])),
    concat('hint.', holders, char(0), username, char(0), holders, '-person', char(0), holder, char(0), namer, char(0)),
    newest, 1, source.1, source.2, source.3
FROM (
    SELECT if(claim[1] IN ` + list(LookupNetworkUsername, LookupCodehostNetworkUsername, LookupLinkNetwork) +
		`, 'network', 'codehost') AS holders,
        if(holders = 'network', 'codehost', 'network') AS namers,
        claim[2] AS username, maxIf(ver, holds) AS newest, argMaxIf((topic, partition, offset), ver, holds) AS source,
        arrayJoin(groupUniqArrayIf(` + strconv.Itoa(MaxHints) + `)(claim[4], holds)) AS holder,
        arrayJoin(groupUniqArrayIf(` + strconv.Itoa(maxNamers) + `)(name, name != '')) AS namer
    FROM (
        SELECT splitByChar(char(0), claim) AS claim, ver, topic, partition, offset,
            claim[1] IN ` + list(LookupNetworkUsername, LookupCodehostUsername) + ` AS holds,
            multiIf(claim[1] IN ` + list(LookupCodehostNetworkUsername, LookupNetworkCodehostUsername) + `,
                if(claim[5] = '', '', concat(claim[5], ' ', claim[4])),
                claim[1] = '` + string(LookupLinkNetwork) + `' AND startsWith(claim[4], 'codehost:') OR
                claim[1] = '` + string(LookupLinkCodehost) + `' AND startsWith(claim[4], 'network:'),
                splitByChar(':', claim[4], 2)[2], '') AS name
        FROM (SELECT claim, ver, topic, partition, offset FROM ` + table + ` WHERE key_hash IN (` + numbers(keys) + `))
    )
    WHERE holds OR name != ''
    GROUP BY holders, namers, username
)`
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
