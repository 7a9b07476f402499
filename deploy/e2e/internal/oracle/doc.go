// Package oracle computes, from records alone, what the API must answer.
//
// It is written from schemas/MAPPING.md and shares nothing with the renderer
// or the read store: one pass keeps each identity's newest record, lookups are
// maps, and each shape of the mapping table is a function over plain JSON
// values. It uses packages identity and place for what MAPPING.md defines by
// them: NormalizeUsername, NormalizeEmail, the reading of profile URLs, the division of
// names and the gazetteer.
//
// It is slow, holds everything in memory and is for tests only. Where
// MAPPING.md orders equal versions by a content hash, the oracle does not
// guess: [Store.Seal] refuses records of one identity that have one version
// and two contents.
package oracle
