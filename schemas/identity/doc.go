// Package identity reads the names by which people and companies are found:
// usernames, profile URLs, company URLs and e-mail addresses.
//
// It is the only place that knows how a name is compared. [UsernameKey] and
// [EmailKey] give the comparison form of a stored or asked value: writers of
// read models and readers of requests call the same function, so a name that
// differs only in letter case, percent-escapes or Unicode composition is the
// same name on both sides (rulings.md, Names). The value itself is stored and
// echoed as the record has it.
//
// Which hosts belong to a platform, and which URL shapes are a person's or a
// company's, is data: the embedded platforms.json, or a file of the same form
// given to [Load].
//
// Everything here is pure and safe for concurrent use.
package identity
