// Package account holds organizations and API keys in memory, as stated by the compacted account
// topic, and authenticates calls.
//
// The topic is the source of truth, and every replica follows all of it. A change takes effect on a
// replica as soon as it has read the event. Events are idempotent. Only the SHA-256 of an API key
// is stored.
package account
