// Package identity parses and normalizes identifiers of people and companies: usernames, profile URLs,
// company URLs and e-mail addresses.
//
// It is the only place that defines how identifiers are compared. [NormalizeUsername] and [NormalizeEmail] return the
// normalized form of stored and requested values. Writers of read models and readers of requests use the same
// functions, so differences in letter case, percent-escapes or Unicode composition do not matter (rulings.md,
// Names). Values are stored and returned as given in the record.
//
// The hosts of a platform and its URL patterns for people and companies are data: the embedded
// platforms.json, or a file of the same form passed to [Load].
//
// All functions are pure and safe for concurrent use.
package identity
