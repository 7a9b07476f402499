package planner

// updatedAt is the field that newer versions change.
const updatedAt = "updated_at"

const seenPeople = "kind = '" + recordKind + "'"

// seenVersions are the newest versions of the same content; seenUpdatedAt is their time. Versions are microseconds
// since the year 1.
const (
	seenVersions  = "(SELECT key_hash AS seen_key, content_hash AS seen_content, max(version) AS seen_version FROM seen_versions WHERE " + seenPeople + " GROUP BY seen_key, seen_content)"
	seenUpdatedAt = "intDiv(seen_version, 1000) - 62135596800000"
)
