// Package evaluatortest answers queries of the algebra by brute force: it goes over
// every document with the rules written down as directly as they can be. Tests
// hold the planner's SQL, the read model and the paging against it, where
// OpenSearch is not at hand or has no counterpart. It shares with them the
// algebra and the analyser, nothing else: not the planner's formulas, not its
// statistics, not its expansion of fuzzy and unfinished terms.
//
// Lowering is not judged: a clause that is lowered to the wrong node is wrong
// here, too. That is for OpenSearch to find (package differential).
package evaluatortest
