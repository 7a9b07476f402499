// Package resolution decides which records answer a person enrichment, and which record an account
// link leads to (rulings.md, Person enrichment; schemas/MAPPING.md, section 2).
//
// [Resolve] and [Follow] are pure functions over [Rows]: they read nothing, and the order of rows never
// matters. The caller gathers the rows; a row that it leaves out does not exist. Names and addresses are
// comparison forms (identity.UsernameKey, identity.EmailKey).
package resolution
