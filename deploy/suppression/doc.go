// Package suppression keeps the suppression set of a process up to date.
//
// A [Follower] feeds event.TopicErasure to a suppress.Set, which the services of the
// process share. An entry is in force as soon as the broker delivers it, within a
// second. Services wait until the set is loaded. An entry with the key of another root
// secret stops the process, since erased people would not be recognized.
package suppression
