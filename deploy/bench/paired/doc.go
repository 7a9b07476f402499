// Package paired estimates the difference between two things that were measured
// alternately, with a confidence interval that is robust against a few outliers.
//
// The estimate is the one by Hodges and Lehmann, the median of the averages of any two
// differences, and the interval belongs to Wilcoxon's signed-rank test (Hollander, Wolfe
// and Chicken, Nonparametric Statistical Methods, 3rd edition, sections 3.2 and 3.3). Both
// assume only that the differences are distributed symmetrically.
package paired
