// Package readmodel defines the read models: their tables, how records are rendered into rows, and the SQL
// that reads them. Writers and readers share it.
//
// A record becomes one row of a main table and a few rows of the table lookups. A main row holds the whole
// record, rendered once for each response shape (schemas/MAPPING.md) as the fields of a JSON object without
// braces. Readers splice stored bytes and never see a partially updated record.
//
// Rows are idempotent by key: every table is a ReplacingMergeTree whose version (the column ver) packs the
// record's version, mapping revision, deletion and content hash, in this order. Inserting a record again,
// late or out of order does not change results. Deleted records stay as rows with deleted = 1, so that an
// older version that arrives later does not restore them.
//
// A row of lookups is a candidate: a record once had the value. Readers verify each candidate against the
// main row, since a username may have moved to another person; the newest verified one wins. Insert writes
// lookups before main rows, so that a value that a record keeps can always be found.
//
// Hints are lookups of the second step: under the username of an account that names a username of the other
// webset they repeat the candidates of the named one. So a reader that follows links needs no further lookups.
// Insert derives them from both sides after lookups are visible; readers verify them like other candidates.
//
// A newer version of a record with the same content (a version bump) becomes a row of seen_versions only. The
// queries of main tables return these rows, too, and readers use the newer version for a main row with that
// content (NewestVersion), in whatever order the two were written.
//
// The package opens no connections.
package readmodel
