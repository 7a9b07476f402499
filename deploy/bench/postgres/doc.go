// Package postgres is an alternative to muster that the bench compares with: PostgreSQL 15 with rendered answers, and a
// minimal HTTP API on it.
//
// [Start] runs a [Cluster] of Debian's package on a Unix socket in a temporary directory; [Cluster.Close] stops it and
// removes the directory. [Load] fills a [Table] with COPY, and [Handler] serves the tables.
//
// The programs are those of the installed package. Without it, Debian's packages are downloaded once with apt-get
// into the user's cache directory, and unpacked next to the cluster, without root. If that fails too, Start returns
// an error. PostgreSQL does not run as root: started by root, it runs as an unprivileged user.
package postgres
