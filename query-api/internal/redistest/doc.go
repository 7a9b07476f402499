// Package redistest starts real Redis servers for tests, and Sentinels that watch them:
// Debian's redis-server, on loopback, in a folder of its own.
//
// The program is taken from the PATH. Where there is none, Debian's packages are
// downloaded with apt-get and unpacked into the user's cache folder, once, which
// needs no root. Where neither works, Start fails: it never passes for a server.
package redistest
