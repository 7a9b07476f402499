// Package searchbombs lists search queries that are meant to do harm: deep, wide,
// long, with patterns and phrases that take as much time or memory as can be had.
// Each is to be answered or refused within what a search may take.
//
// It is for tests and benchmarks.
package searchbombs
