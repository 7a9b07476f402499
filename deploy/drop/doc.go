// Package drop imports the deletion lists of California's platform for data brokers
// (DROP, technical specifications 1.2.0) and makes the responses that it expects.
//
// Its one job is a cycle of that platform: read the downloaded lists, find out whom
// of the read models each row means, have them erased, and say for each row what was
// done. What a row was found to mean is in the log of erasures beside the hash that
// keeps the person out from then on, before anything is removed: an import that is
// repeated, or was cut short, ends as one that was not, and gives the same response.
//
// A hash that means several people of one webset opts all of them out (status 4),
// one person is deleted (3), nobody is not found (5): the hash screens tomorrow's
// records all the same. Rows that were withdrawn are lifted, unless another request
// names the same hash. Nothing here is logged or printed but the rows' ids.
package drop
