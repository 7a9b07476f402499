// Package receipt proves an erasure: it looks for what is left of a request's people
// and writes down, signed, what it found.
//
// Its one job is a [Receipt]. [Look] looks through all read models and topics with the
// request's suppression hashes and those that followed from them; [Sign] and [Check] make and check an Ed25519 signature (RFC 8032) over the
// receipt's canonical JSON (RFC 8785) without the member "signature". The key is
// derived from the instance's root secret. A receipt names nobody, and says where
// nothing was looked for.
package receipt
