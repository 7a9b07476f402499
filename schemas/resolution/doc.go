// Package resolution decides which records answer a person enrichment, and which record an account
// link leads to (rulings.md, Person enrichment; schemas/MAPPING.md, section 2).
//
// [Resolve] and [Follow] are pure functions of [Rows]; the order of rows does not matter. The
// caller provides all relevant rows: a missing row is treated as nonexistent. Usernames and
// addresses are comparison forms (identity.NormalizeUsername, identity.NormalizeEmail).
package resolution
