// Package evaluate measures discovery on generated worlds, whose truth is known,
// and fits its evidence model there.
//
// A world's records are projected into the read models as the projector does, and
// discovery is asked for drawn accounts as callers ask it, so that the candidates
// are all that it finds, namesakes included. The truth is read from the world's
// own file and meets the answers only in the counts.
package evaluate
