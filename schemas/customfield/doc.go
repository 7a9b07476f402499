// Package customfield implements the caller's schema for fields to generate (interface.md, POST /v1/context):
// parsing, validation of values, and conversion to JSON Schema.
//
// query-api rejects schemas that cannot be parsed. The discovery-worker returns no value that [Type.Check]
// does not accept.
package customfield
