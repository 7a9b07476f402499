// Package migrations creates and updates the tables of the read models and the views for analysts.
//
// [Apply] applies the migrations of schemas/readmodel that are not recorded as applied. [ReconcileNodes] creates the
// tables on nodes that join a cluster later. [WithLock] excludes migrations and replays from each other.
//
// All functions are idempotent, may run concurrently, and can be repeated after a crash.
package migrations
