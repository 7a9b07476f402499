// Package letters reads what the platform could not use: rejected records and dead
// letters, each on its topics, and keeps account of which of them an operator has
// given back.
//
// Its one job is finding letters. It holds none of them but those that it hands
// over, one at a time, so that any number may be stored.
//
// # Guarantee
//
// [Scan] gives every letter that is stored when it begins and that the filter
// lets through. A letter counts as resubmitted once [Marker.Flush] has returned: a
// resubmission that is killed before may be repeated, which publishes the same
// records once more.
package letters
