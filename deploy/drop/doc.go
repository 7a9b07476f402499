// Package drop imports the deletion lists of California's platform for data brokers
// (DROP, technical specifications 1.2.0) and writes the responses that it expects.
//
// An import reads the downloaded lists, matches each row to people in the read
// models, erases them, and records a status per row. The match is in the erasure log
// together with the suppression hash, before anything is removed, so a repeated or
// interrupted import gives the same response.
//
// If a hash matches several people of one webset, all are opted out (status 4); one
// person is deleted (3); no match is not found (5), and the hash suppresses future
// records all the same. Withdrawn rows end the suppression, unless another request has
// the same hash. Only the IDs of rows are logged or printed.
package drop
