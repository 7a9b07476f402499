// Package backup archives the data directory of a stopped instance, and restores it. An archive is a tar file
// compressed with zstd. Its last file is a manifest with the SHA-256 of every other file. Incomplete archives are
// rejected.
//
// People who were erased after the backup must stay erased: [ImportErasures] adds the erasures of an older directory,
// or of a file from erasure.Log.Write, to the restored directory before it is served.
package backup
