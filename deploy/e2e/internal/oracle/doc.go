// Package oracle computes, from records alone, what the API must answer.
//
// It is written from schemas/MAPPING.md and independent of the renderer and the read store: it keeps the newest record
// of each identity in maps, and renders each shape of the mapping with a function on plain JSON values. It uses
// packages identity and place only for what MAPPING.md defines by them: NormalizeUsername, NormalizeEmail, parsing of
// profile URLs, splitting of names and the gazetteer.
//
// It is slow, holds everything in memory and is for tests only. Where MAPPING.md orders equal versions by a content
// hash, [Store.Seal] returns an error for records of one identity with the same version and different contents.
package oracle
