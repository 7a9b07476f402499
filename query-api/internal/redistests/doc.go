// Package redistests runs the conformance suites of all state shared by replicas against a real
// Redis server, and kills that server.
//
// Its tests have the build tag redis, since they need Debian's redis-server: make test-redis.
package redistests
