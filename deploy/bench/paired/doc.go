// Package paired tells how much one of two things differs from the other when both were
// measured in turns, with a confidence interval that a few odd turns do not widen or
// move much.
//
// The estimate is that of Hodges and Lehmann, the median of the averages of any two
// differences, and the interval is the one that belongs to Wilcoxon's signed-rank test
// (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3rd edition, sections
// 3.2 and 3.3). Both assume that differences scatter symmetrically, nothing more. Package
// paired keeps nothing and fails never.
package paired
