// Package receipt verifies an erasure: it searches for data about the people of a request, and writes a signed
// [Receipt].
//
// [Look] searches all read models and topics for the request's suppression hashes and those derived from them. [Sign]
// and [Check] create and verify an Ed25519 signature (RFC 8032) over the receipt's canonical JSON (RFC 8785) without
// the field "signature". The key is derived from the instance's root secret. A receipt contains no personal data, and
// lists what was not searched.
package receipt
