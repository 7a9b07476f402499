// Package subject finds all data about a person: the data of a subject access report.
//
// A [Report] has the rows of all read models about the person, each with the message
// that it comes from and, while the log retains that message, the run, file and line of
// the record; and, from the ledger, the calls that returned the person's data.
//
// Identifiers match as in an erasure (deploy/docs/erasure.md): records with one of the
// identifiers, and the account of the other webset if both link to each other. The
// package is read-only. [Options] bounds the report.
package subject
