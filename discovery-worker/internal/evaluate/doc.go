// Package evaluate measures discovery on synthetic data with known ground truth, and trains the
// evidence model on it.
//
// The records are projected into the read models as the projector does, and discovery is run for
// sampled accounts, so the candidates include people with the same name. The ground truth is read
// from the generator's truth file and used only for counting.
package evaluate
