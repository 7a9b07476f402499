package readmodel

import (
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Population counts what the lookups of a share of all keys say about the people in the store. Keys are
// hashes, so the share is a random sample of names and usernames, with all their holders.
type Population struct {
	// Share is the share of the keys that were read.
	Share     float64
	Names     []NameCount
	Usernames []UsernameCount
}

// NameCount is the blocking key of a given and a family name (identity.NameBlockingKeys), and the number of records of
// that name. Of longer names every pair of parts is a key; the other pairs go together, such as those of two surnames,
// so with them rare names would seem to have several times as many namesakes.
type NameCount struct {
	Platform string // identity's platform
	Key      string
	Holders  uint64
}

// UsernameCount counts the usernames of a platform.
type UsernameCount struct {
	Platform string
	// Held are those that a record has, Named those that records of other platforms declare, and NamedHeld
	// those of them that a record has.
	Held, Named, NamedHeld uint64
}

// maxPopulationRows is the approximate number of lookups that a Population is computed from.
const maxPopulationRows = 400_000

// Statements of ReadPopulation. Rows of deleted records count only until the next merge.
const (
	lookupCountQuery = `SELECT count() FROM lookups`

	nameCountQuery = `SELECT substring(type, 6) AS platform, key, uniqExact(target) AS holders
FROM (
    SELECT splitByChar(char(0), claim) AS fields, fields[1] AS type, fields[2] AS key, fields[4] AS target,
        fields[5] AS part
    FROM lookups
    WHERE key_hash <= {bound:UInt64} AND startsWith(claim, '` + lookupName + `')
        AND bitAnd(toUInt64(ver), 68719476736) = 0
)
WHERE part != '` + partOfName + `' AND NOT startsWith(key, '~') AND NOT startsWith(key, '=')
GROUP BY platform, key`

	usernameCountQuery = `SELECT platform, countIf(held), countIf(named), countIf(held AND named)
FROM (
    SELECT platform, username, max(owns) AS held, max(NOT owns) AS named
    FROM (
        SELECT splitByChar(char(0), claim) AS fields, splitByChar('.', fields[1]) AS type, fields[2] AS username,
            type[2] = 'username' AS owns, if(owns, type[1], substring(type[2], 1, length(type[2]) - 9)) AS platform
        FROM lookups
        WHERE key_hash <= {bound:UInt64} AND bitAnd(toUInt64(ver), 68719476736) = 0
            AND endsWith(fields[1], 'username')
    )
    GROUP BY platform, username
)
GROUP BY platform`
)

// ReadPopulation reads a Population. send runs a query, whose parameter "bound" is the largest key to read.
func ReadPopulation(send func(query string, bound uint64, scan func(driver.Rows) error) error) (*Population, error) {
	var rows uint64
	if err := send(lookupCountQuery, 0, func(r driver.Rows) error { return r.Scan(&rows) }); err != nil {
		return nil, err
	}
	p := &Population{Share: 1}
	bound := ^uint64(0)
	if rows > maxPopulationRows {
		p.Share = maxPopulationRows / float64(rows)
		bound = uint64(p.Share * float64(1<<63) * 2)
	}
	if rows == 0 {
		return p, nil
	}
	err := send(nameCountQuery, bound, func(r driver.Rows) error {
		var n NameCount
		err := r.Scan(&n.Platform, &n.Key, &n.Holders)
		p.Names = append(p.Names, n)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = send(usernameCountQuery, bound, func(r driver.Rows) error {
		var n UsernameCount
		err := r.Scan(&n.Platform, &n.Held, &n.Named, &n.NamedHeld)
		p.Usernames = append(p.Usernames, n)
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}
