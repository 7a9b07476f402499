package readmodel

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/event"
	"muster/schemas/identity"
)

// DiscoveredTable is the read model of discovered links, by each of their profiles. Its rows are candidates:
// a link is valid only if the newest result of its input (DiscoveryTable) has it.
const DiscoveredTable = "discovered_links"

// DiscoveredConfidence is the minimum calibrated confidence at which a discovered link is used by other
// endpoints (rulings.md, Person enrichment).
const DiscoveredConfidence = 0.9

// discoveredBatch holds rows of discovered_links.
type discoveredBatch struct {
	foundHash, inputHash                   column[uint64]
	foundPlatform, foundKey, foundIdentity column[string]
	inputPlatform, inputKey, inputIdentity column[string]
	confidence                             column[float64]
	at                                     column[time.Time]
	version                                column[int64]
	topic                                  column[string]
	partition                              column[int32]
	offset                                 column[int64]
}

// add adds the rows of a result with links of sufficient confidence: one for each profile found, and one for
// the input.
func (b *discoveredBatch) add(d *event.Discovery, at Position) {
	inputKey := identity.NormalizeUsername(d.Input.Username)
	found := slices.DeleteFunc(slices.Clone(d.Socials[1:]), func(s event.Social) bool {
		return s.Confidence < DiscoveredConfidence
	})
	if len(found) > 0 {
		input := d.Socials[0]
		input.Account = d.Input
		found = append(found, input)
	}
	for _, s := range found {
		key := identity.NormalizeUsername(s.Username)
		b.foundHash.add(DiscoveryHash(s.Platform, key))
		b.foundPlatform.add(s.Platform)
		b.foundKey.add(key)
		b.foundIdentity.add(s.Identity)
		b.inputHash.add(DiscoveryHash(d.Input.Platform, inputKey))
		b.inputPlatform.add(d.Input.Platform)
		b.inputKey.add(inputKey)
		b.inputIdentity.add(d.Socials[0].Identity)
		b.confidence.add(s.Confidence)
		b.at.add(d.At.UTC())
		b.version.add(d.At.UnixMicro())
		b.topic.add(at.Topic)
		b.partition.add(at.Partition)
		b.offset.add(at.Offset)
	}
}

// Len returns the number of rows.
func (b *discoveredBatch) Len() int { return len(b.foundHash.list) }

func (b *discoveredBatch) columns() []field {
	return []field{
		{"found_hash", "UInt64", &b.foundHash},
		{"found_platform", "String", &b.foundPlatform},
		{"found_key", "String", &b.foundKey},
		{"found_identity", "String", &b.foundIdentity},
		{"input_hash", "UInt64", &b.inputHash},
		{"input_platform", "String", &b.inputPlatform},
		{"input_key", "String", &b.inputKey},
		{"input_identity", "String", &b.inputIdentity},
		{"confidence", "Float64", &b.confidence},
		{"at", "DateTime64(6, 'UTC')", &b.at},
		{"version", "Int64", &b.version},
		{"topic", "String", &b.topic},
		{"partition", "Int32", &b.partition},
		{"offset", "Int64", &b.offset},
	}
}

// discoveredQuery returns the query for inputs whose results mention accounts, by DiscoveryHash of these.
func discoveredQuery() string {
	return `SELECT found_hash, input_hash, version
FROM ` + DiscoveredTable + `
WHERE found_hash IN {keys:Array(UInt64)}`
}

// ReadDiscoveredInputs returns the inputs (DiscoveriesQuery) whose results mention accounts: those of the 20
// newest per account. A newer result may no longer mention it. send runs a query with up to MaxKeys
// DiscoveryHashes as ParameterKeys.
func ReadDiscoveredInputs(send func(query string, scan func(driver.Rows) error) error) ([]uint64, error) {
	type find struct {
		found, input uint64
		version      int64
	}
	var finds []find
	scan := func(rows driver.Rows) error {
		var f find
		if err := rows.Scan(&f.found, &f.input, &f.version); err != nil {
			return err
		}
		finds = append(finds, f)
		return nil
	}
	err := send(discoveredQuery()+"\nLIMIT "+strconv.Itoa(maxPlainRows), scan)
	if err == nil && len(finds) == maxPlainRows {
		finds = nil
		err = send(discoveredQuery()+"\nORDER BY version DESC LIMIT "+strconv.Itoa(maxInputs)+" BY found_hash", scan)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(finds, func(a, b find) int { return cmp.Compare(b.version, a.version) })
	var inputs []uint64
	of := make(map[uint64]int)
	for _, f := range finds {
		if of[f.found]++; of[f.found] <= maxInputs && !slices.Contains(inputs, f.input) {
			inputs = append(inputs, f.input)
		}
	}
	return inputs, nil
}

// maxInputs is the maximum number of inputs per account whose results are read.
const maxInputs = 20
