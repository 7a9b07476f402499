// Package readstore reads people and companies from the read models in ClickHouse: it finds the
// matching records, follows account links, and assembles stored fragments into JSON.
//
// # Reading
//
// Every table is read with batch loading: lookups of concurrent requests become one IN query per
// table, of at most 256 keys, with a limited number of concurrent queries. A result reflects the
// data at the time of the call or later.
//
// # Matching
//
// A row of lookups is only a candidate. It counts if the current main row still has the value; if
// several match, the newest record wins (schemas/MAPPING.md, section 2). Package resolution decides
// which records answer an enrichment and where links lead; this package reads the rows for it.
//
// # Failures
//
// A temporary failure is an error matching [ErrUnavailable]; other errors are those of the caller's
// context. A miss is not an error.
package readstore
