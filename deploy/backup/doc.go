// Package backup packs the data folder of a stopped instance into one archive and unpacks it
// again: a tar compressed with zstd, whose last file is a manifest with the SHA-256 of every
// other. An archive is whole or it is refused.
//
// An archive is older than what happened since. Whoever was erased in between must not come
// back with it: Carry takes what an older folder, or a file that Erasures.Write made, knows of
// erasures into the restored folder before anything is served from it.
package backup
