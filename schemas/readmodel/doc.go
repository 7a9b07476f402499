// Package readmodel is the contract between who writes the read models and
// who reads them: their tables, what a record becomes in them, and the SQL
// that reads it back.
//
// One record becomes one row of a main table and a few rows of the table
// lookups. A main row holds all of its record, rendered once per response
// shape (schemas/MAPPING.md) as the members of a JSON object without the
// braces, so that a reader answers by splicing stored bytes and sees a record
// either old or new, never half of one.
//
// Rows are idempotent by key: every table is a ReplacingMergeTree whose
// version (the column ver) packs the record's version, mapping revision, deletion and
// content hash, in this order. Inserting a record again, late, or out of order changes no answer.
// Withdrawn records stay as rows with deleted = 1, so that an older version
// that arrives later cannot bring them back.
//
// A row of lookups is a candidate, never an answer: it says that a record
// once held a value. Readers check every hit against the identifying columns
// of the main row (a username may have moved to someone else) and let the
// newest verified one win. Insert writes lookups before main rows, so that a
// value that a record keeps is never missing in between.
//
// A record that comes again with a newer version and the same content leaves a
// row of seen_versions alone. The queries of main tables return these rows too,
// and readers give a main row the newer version when it holds that content
// (FreshenNetworkPeople and its like), whichever of the two was written first.
//
// The package opens no connection: it is handed one.
package readmodel
