// Package evidence computes how likely it is that two profiles belong to one person, and why.
//
// It follows Fellegi and Sunter. [Compare] reduces a pair of profiles to one comparison level for
// each field: name, username, employer, place, links and so on. A [Model] gives each level a
// weight: the logarithm of how much more often it occurs for the same person than for another
// candidate. A [Population] of the store adds the prior, and the weight of an agreeing name from the
// expected number of namesakes. The candidates of one platform share one unit of probability,
// because at most one of them is right: similar people with the same name reduce each other's
// ([Model.Rank]).
//
// Raw probabilities are calibrated on data that the weights were not trained on. Weights and
// calibration are versioned data (model.json), produced by [Train] and [Model.Calibrate].
//
// Only fields are compared, never sentences: claims in a text do not raise a probability. A
// one-sided claim counts little if the names contradict each other ([Model.Rank], safeguards). The
// page deploy/docs/discovery-model.md has every number.
package evidence
