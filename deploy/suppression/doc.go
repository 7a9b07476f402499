// Package suppression keeps a process's set of erased people up to date.
//
// Its one job is to feed event.TopicErasure to a suppress.Set, which the services
// of the process share. An entry holds everywhere as soon as the broker hands it
// out, within a second. Nobody relies on the set before it is loaded; an entry of
// another root secret ends the process, since erased people would not be known.
package suppression
