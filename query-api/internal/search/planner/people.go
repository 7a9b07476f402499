package planner

import "strconv"

// living is the condition under which a row is of a person who is not among the hidden ones. It stands last: in front
// of another condition it makes the server choose rows, nearly all of them, and copy their lists.
func living(hidden []uint64) string {
	if len(hidden) == 0 {
		return "NOT deleted"
	}
	list := make([]byte, 0, 21*len(hidden))
	for i, h := range hidden {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendUint(list, h, 10)
	}
	return "NOT deleted AND profile_hash NOT IN (" + string(list) + ")"
}

// updatedAt is the field that newer versions change.
const updatedAt = "updated_at"

const seenPeople = "kind = 'network-person'"

// seenVersions are the newest versions that people were seen with, each with a content; seenUpdatedAt is when that was:
// versions are microseconds since the year 1.
const (
	seenVersions  = "(SELECT key_hash AS seen_key, content_hash AS seen_content, max(version) AS seen_version FROM seen_versions WHERE " + seenPeople + " GROUP BY seen_key, seen_content)"
	seenUpdatedAt = "intDiv(seen_version, 1000) - 62135596800000"
)
