// Package evaluatortest executes queries of package algebra by brute force: it scans all documents and implements the
// rules as directly as possible. Tests compare the search index, the read model and paging with it, where OpenSearch is
// not available or has no counterpart. It shares the algebra and the analyzers with them, but not the planner's
// formulas, statistics or expansions.
//
// It does not verify lowering: a clause that is lowered to the wrong node is wrong here too. OpenSearch verifies that
// (package differential).
package evaluatortest
