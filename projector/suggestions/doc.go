// Package suggestions maintains the table of suggested values, which GET /v1/suggest reads.
//
// [Watch] counts the values of all people again when search_people has changed, and writes them as a new run. A run is
// read only when it is complete, so that an interrupted one, or one of a second replica, has no effect. Replicas skip
// a run if another one has just counted the same rows. Runs before the last but one are dropped. Withdrawn people and
// those whose rows are erased are not counted.
package suggestions
