// Package readstore answers questions about people and companies from the read
// models in ClickHouse: it finds who is meant, follows account links, and
// splices the stored fragments into JSON.
//
// # Reading
//
// Every table is read through gatherers: lookups of concurrent requests become
// one IN query a table, of at most 256 keys, while at most a few queries run
// at once. An answer is what was visible when it was asked for, or later.
//
// # Who is meant
//
// A row of lookups is only a candidate: it counts when the main row, as it is
// now, still holds the value; of several the newest record wins
// (schemas/MAPPING.md, section 2). Which records answer an enrichment, and where
// links lead, package resolution decides; this package reads the rows for it.
//
// # Failures
//
// What the store cannot answer at present is an error matching [ErrUnavailable];
// otherwise errors are those of the caller's context. A miss is no error.
package readstore
