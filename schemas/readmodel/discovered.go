package readmodel

import (
	"time"

	"muster/schemas/event"
	"muster/schemas/identity"
)

// DiscoveredTable is the read model of links that discovery found, by the profile
// that was found. Its rows are candidates: a link holds as long as the newest
// result of its input (DiscoveryTable) says so.
const DiscoveredTable = "discovered_links"

// DiscoveredConfidence is the calibrated confidence from which a link that
// discovery found counts elsewhere (rulings.md, Person enrichment).
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

// add adds the rows of what a result says that counts elsewhere.
func (b *discoveredBatch) add(d *event.Discovery, at Position) {
	inputKey := identity.UsernameKey(d.Input.Username)
	for _, s := range d.Socials[1:] {
		if s.Confidence < DiscoveredConfidence {
			continue
		}
		key := identity.UsernameKey(s.Username)
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

// Len is the number of rows.
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

// DiscoveredQuery reads the newest results that say something about accounts, by
// DiscoveryHash: those of which an account is the input, and those whose input has
// found it before, of each account those of the 20 newest finds. Columns are those of DiscoveriesQuery. Compare what the result
// says: a newer one may say it no more, and hashes may collide.
func DiscoveredQuery() string {
	return `SELECT input_hash, toString(platform), username_key, at, found, result
FROM ` + DiscoveryTable + `
WHERE input_hash IN {keys:Array(UInt64)} OR input_hash GLOBAL IN (
    SELECT input_hash FROM ` + DiscoveredTable + ` WHERE found_hash IN {keys:Array(UInt64)}
    ORDER BY version DESC LIMIT 20 BY found_hash
)
ORDER BY version DESC LIMIT 1 BY input_hash, platform, username_key`
}
