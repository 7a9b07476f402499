// Package event is the contract of everything on the bus: which topics exist
// ([Topics]), the CloudEvents types of what travels on them, and the payloads
// that services exchange beside records. API keys live here too, because the
// account events that carry their hashes do.
//
// Payloads are JSON. Delivery is at least once everywhere: consumers key what
// they keep by what an event states, so a repeated event changes nothing. A
// payload may gain fields within a version; readers ignore what they do not
// know. A breaking change is a new type and a new topic.
package event
