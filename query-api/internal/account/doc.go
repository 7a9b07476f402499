// Package account knows organizations and API keys: it holds in memory what the
// compacted account topic states, and says who is calling.
//
// The topic is the truth and every replica follows all of it, so a change is
// effective on each of them as soon as it has read the event. Applying an event
// again changes nothing. API keys are known by their SHA-256 only.
package account
