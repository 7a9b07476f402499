// Package event defines the messages on the bus: the topics ([Topics]), CloudEvents types, and the payloads
// that services exchange in addition to records. It includes API keys, because account events carry their
// hashes.
//
// Payloads are JSON. Delivery is at least once: consumers key their state by the content of events, so
// repeated events have no effect. A payload may gain fields within a version; readers ignore unknown ones. A
// breaking change needs a new type and a new topic.
package event
