package planner

import "strconv"

// notHidden returns the condition that a row is not of a hidden person. It must be the last condition: before another
// one it makes the server select nearly all rows and copy their lists.
func notHidden(hidden []uint64) string {
	if len(hidden) == 0 {
		return yes
	}
	list := make([]byte, 0, 21*len(hidden))
	for i, h := range hidden {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendUint(list, h, 10)
	}
	return hashColumn + " NOT IN (" + string(list) + ")"
}

// updatedAt is the field that newer versions change.
const updatedAt = "updated_at"

const seenPeople = "kind = '" + recordKind + "'"

// seenVersions are the newest versions of the same content; seenUpdatedAt is their time. Versions are microseconds
// since the year 1.
const (
	seenVersions  = "(SELECT key_hash AS seen_key, content_hash AS seen_content, max(version) AS seen_version FROM seen_versions WHERE " + seenPeople + " GROUP BY seen_key, seen_content)"
	seenUpdatedAt = "intDiv(seen_version, 1000) - 62135596800000"
)
