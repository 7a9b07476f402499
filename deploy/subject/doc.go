// Package subject finds what is held about a person.
//
// Its one job is a [Report]: the rows of all read models that are of the person,
// each with the message that made it and, as far as the log still has that message,
// the run, file and line that the record came from; and, of the ledger, who was
// given the person's data and when.
//
// Who a person is follows the rules of erasure (deploy/docs/erasure.md): whoever
// has one of the identifiers, and the account of the other webset when the two name
// each other. Nothing is changed, and what is returned is bounded by [Options].
package subject
