// Package signature signs webhooks by Standard Webhooks 1.0.0.
//
// It has one job: the headers of one try. The bytes that are signed are the
// delivery's id, the time of the try in unix seconds and the exact body, joined by
// points. While an organization rotates its secret, each secret that is valid
// gives one signature of the list, the newest first.
package signature
