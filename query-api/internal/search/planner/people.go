package planner

import (
	"strconv"

	"muster/query-api/internal/search/algebra"
)

// People says how the people are read.
type People struct {
	// Refreshed takes versions into account that are newer than the people's
	// content: they change updated_at alone (records.md, rule 5), and stand in a
	// table of their own. It costs a join.
	Refreshed bool
	// Hidden are the profile hashes of people who were erased and whose rows are there
	// until they are deleted: they neither rank nor count.
	Hidden []uint64
}

// living is the condition under which a row of source is of somebody. It stands last: in front of another condition it
// makes the server choose rows, nearly all of them, and copy their lists.
func (p People) living() string {
	if len(p.Hidden) == 0 {
		return "NOT deleted"
	}
	list := make([]byte, 0, 21*len(p.Hidden))
	for i, h := range p.Hidden {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendUint(list, h, 10)
	}
	return "NOT deleted AND profile_hash NOT IN (" + string(list) + ")"
}

// updatedAt is the field that newer versions change.
const updatedAt = "updated_at"

// ReadsUpdates says that a query depends on updated_at.
func ReadsUpdates(n algebra.Node, sorts []Sort) bool {
	found := false
	visit := func(n algebra.Node) {
		switch n := n.(type) {
		case algebra.Range:
			found = found || n.Field.Path == updatedAt
		case algebra.Set:
			found = found || n.Field.Path == updatedAt
		case algebra.Function:
			for _, f := range n.Functions {
				found = found || f.Field.Path == updatedAt
			}
		}
	}
	algebra.Walk(n, visit)
	for _, s := range sorts {
		found = found || s.Field.Path == updatedAt
	}
	return found
}

// RefreshedStatement says whether anybody has a newer version than her content:
// it has a row then.
func RefreshedStatement() Statement {
	return Statement{SQL: "SELECT toUInt8(1) FROM seen_versions WHERE " + seenPeople + " LIMIT 1"}
}

const seenPeople = "kind = 'network-person'"

// source is what stands behind FROM. A newer version counts for the content
// that it was seen with.
func (p People) source() string {
	if !p.Refreshed {
		return table + " FINAL"
	}
	return "(SELECT * EXCEPT (updated_at), if(seen_version > version, " + seenUpdatedAt + ", updated_at) AS updated_at FROM " + table +
		" FINAL LEFT ANY JOIN " + seenVersions + " AS seen ON profile_hash = seen_key AND content_hash = seen_content)"
}

// seenVersions are the newest versions that people were seen with, each with a content; seenUpdatedAt is when that was:
// versions are microseconds since the year 1.
const (
	seenVersions  = "(SELECT key_hash AS seen_key, content_hash AS seen_content, max(version) AS seen_version FROM seen_versions WHERE " + seenPeople + " GROUP BY seen_key, seen_content)"
	seenUpdatedAt = "intDiv(seen_version, 1000) - 62135596800000"
)

// PartsStatement counts the parts and rows of the table that a node holds itself: none on a cluster, where it is spread.
func PartsStatement() Statement {
	return Statement{SQL: "SELECT count(), sum(rows) FROM system.parts WHERE active AND database = currentDatabase() AND table = '" + table + "'"}
}
