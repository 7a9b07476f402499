// Package profile builds the profile of a context call from the input, the records of its subject
// and, if configured, the answers of a language model.
//
// Every value has a confidence and a source: the span of the input, or the record. Agreeing sources
// raise a confidence. Of conflicting sources the more confident one wins, and values that belong
// together (a name, a job, a place) come from one source. Two people are never mixed: the subject
// is decided once, and records of others are ignored.
//
// Generated fields are returned by [Builder.Build] only if they are valid under the caller's
// schema. The confidence of a model value is low unless its quote is found in the named source.
//
// Errors of Build are those of the store, and transient, except [ErrInput]. If the model abstains,
// the result names the stage as degraded.
package profile
