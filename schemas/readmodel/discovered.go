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

// discoveredRow is a row of discovered_links.
type discoveredRow struct {
	FoundHash     uint64    `ch:"found_hash"`
	FoundPlatform string    `ch:"found_platform"`
	FoundKey      string    `ch:"found_key"`
	FoundIdentity string    `ch:"found_identity"`
	InputHash     uint64    `ch:"input_hash"`
	InputPlatform string    `ch:"input_platform"`
	InputKey      string    `ch:"input_key"`
	InputIdentity string    `ch:"input_identity"`
	Confidence    float64   `ch:"confidence"`
	At            time.Time `ch:"at"`
	Version       int64     `ch:"version"`
	Position
}

// discoveredLinks returns the rows of a result with links of sufficient confidence: one for each profile found, and
// one for the input.
func discoveredLinks(d *event.Discovery, at Position) (rows []discoveredRow) {
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
		rows = append(rows, discoveredRow{
			FoundHash: DiscoveryHash(s.Platform, key), FoundPlatform: s.Platform, FoundKey: key,
			FoundIdentity: s.Identity, InputHash: DiscoveryHash(d.Input.Platform, inputKey),
			InputPlatform: d.Input.Platform, InputKey: inputKey, InputIdentity: d.Socials[0].Identity,
			Confidence: s.Confidence, At: d.At.UTC(), Version: d.At.UnixMicro(), Position: at,
		})
	}
	return rows
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
