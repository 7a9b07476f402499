// Package signature signs webhooks according to Standard Webhooks 1.0.0.
//
// The signed content is the delivery ID, the Unix timestamp of the attempt in seconds and the exact
// body, joined by dots. While an organization rotates its secret, the header has one signature for
// each valid secret, newest first.
package signature
