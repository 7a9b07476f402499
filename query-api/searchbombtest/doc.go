// Package searchbombtest lists expensive search queries: deep, wide or long ones, and patterns and
// phrases that take as much time or memory as possible. Each must be answered or rejected within
// the limits of a search.
//
// It is for tests and benchmarks.
package searchbombtest
