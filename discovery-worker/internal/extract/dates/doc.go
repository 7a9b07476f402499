// Package dates finds dates and periods of time in text, in the languages that the extractor reads.
//
// Dates stay as partial as they are written: YYYY, YYYY-MM or YYYY-MM-DD; [Full] fills them. A [Period] lasts if
// its end is a word for
// the present.
package dates
