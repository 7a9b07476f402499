// Package custom is the schema that a caller of the context endpoint gives for
// fields to generate (interface.md, POST /v1/context): what it may say, which
// values are valid under it, and the JSON Schema that says the same.
//
// query-api refuses what cannot be parsed here, the discovery-worker lets no value
// out that [Type.Check] does not accept.
package custom
