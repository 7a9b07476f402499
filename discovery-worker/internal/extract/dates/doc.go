// Package dates finds dates and periods in text, in the languages that the extractor reads.
//
// Dates keep their written precision: YYYY, YYYY-MM or YYYY-MM-DD. [Full] completes them. A
// [Period] is current if its end is a word for the present.
package dates
