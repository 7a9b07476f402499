// Package postgres is what a user would write instead of muster, for the bench to compare with: PostgreSQL 15 that holds
// finished answers, and a minimal HTTP API over it.
//
// [Start] runs a [Cluster] of Debian's package on a Unix socket in a temporary folder, [Cluster.Close] stops it and
// removes the folder. [Load] fills a [Table] with COPY, and [Handler] answers from the tables.
//
// The programs are those of the installed package. Without it, Debian's packages are downloaded with apt-get into the
// user's cache folder, once, and unpacked beside the cluster, which needs no root. If that fails too, Start returns an
// error. PostgreSQL refuses to run as root: started by root, it runs as an unprivileged user.
package postgres
