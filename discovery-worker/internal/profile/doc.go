// Package profile makes the profile of a context call: from what the input says,
// from the records of who it is about, and, where there is a language model, from
// its answers.
//
// Every value has a confidence and a source: the span of the input, or the record,
// that it rests on. Sources that agree make each other surer; of sources that do
// not, the surer one is believed, and things that belong together (a name, a job, a
// place) are taken from one source. Two people are never mixed: who the input is
// about is decided once, and records of others are left out.
//
// Generated fields leave [Builder.Build] only when they are valid under the
// caller's schema. A value of the model counts in full only if the words that the
// model rests it on stand where it says; else it is hardly believed.
//
// An error of Build is that of the store, and may pass. A model that gives no answer
// is no error: the result names the stage.
package profile
