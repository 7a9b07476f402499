// Package redistest starts Redis servers and Sentinels for tests: Debian's redis-server, on the
// loopback interface, in its own directory.
//
// It uses the redis-server in the PATH. If there is none, it downloads Debian's packages with
// apt-get, once, and unpacks them into the user cache directory, which needs no root. If that
// fails, too, Start fails the test.
//
// Its own tests, with the build tag redis, run the conformance suites of all state shared by replicas against such a
// server, and kill it: make test-redis.
package redistest
