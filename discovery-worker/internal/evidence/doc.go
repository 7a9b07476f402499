// Package evidence says how likely it is that two profiles are one person's, and
// why.
//
// It follows Fellegi and Sunter: [Compare] reduces a pair of profiles to one
// finding a field (name, username, employer, place, links and so on), and a
// [Model] gives each finding its weight, the logarithm of how much more often it
// is seen of the same person than of another one among the candidates. How common
// a name or a username is, as the store knows it, is part of the finding, which is
// the adjustment for term frequency. The candidates of one platform share one
// certainty, since at most one of them is meant and it may be none: namesakes
// that look alike take it from each other ([Model.Rank]).
//
// Raw probabilities are then calibrated with what was seen on worlds that the
// weights do not know. Weights and calibration are data, with a version
// (model.json), fitted by a command ([Fit]).
//
// What is compared are fields and never sentences: nothing that a text says about
// itself raises a probability. A claim that only one side makes counts for little
// when the two names contradict each other ([Model.Rank], safeguards).
package evidence
