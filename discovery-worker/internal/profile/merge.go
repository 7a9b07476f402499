package profile

import (
	"maps"
	"slices"
	"strings"
)

// Fields are values by path.
type Fields map[string]Value

// groupOf returns the group of a path. Values of one group come from one source, or from agreeing
// ones.
func groupOf(path string) string {
	switch path {
	case "first_name", "middle_name", "last_name", "full_name":
		return "name"
	}
	group, _, _ := strings.Cut(path, ".")
	return group
}

// maxMergedConfidence is the maximum confidence of a value from several sources.
const maxMergedConfidence = 0.99

// merge merges sources, which are in order of precedence at equal confidence.
func merge(sources ...Fields) Fields {
	out := make(Fields)
	groups := make(map[string][]Fields)
	for _, s := range sources {
		own := make(map[string]Fields)
		for path, v := range s {
			if isEmpty(v.JSON) || v.Confidence <= 0 {
				continue
			}
			g := groupOf(path)
			if own[g] == nil {
				own[g] = make(Fields)
			}
			own[g][path] = v
		}
		for g, fields := range own {
			groups[g] = append(groups[g], fields)
		}
	}
	for _, list := range groups {
		maps.Copy(out, mergeGroup(list))
	}
	return out
}

func mergeGroup(list []Fields) Fields {
	best := 0
	for i := range list {
		if groupWeight(list[i]) > groupWeight(list[best]) {
			best = i
		}
	}
	out := maps.Clone(list[best])
	for i, other := range list {
		if i == best {
			continue
		}
		agree, contradict := 0, 0
		for path, v := range other {
			have, ok := list[best][path]
			switch {
			case ok && isEquivalent(have.JSON, v.JSON):
				agree++
			case ok:
				contradict++
			}
		}
		for path, v := range other {
			have, ok := out[path]
			switch {
			case ok && isEquivalent(have.JSON, v.JSON):
				have.Confidence = round(min(max(maxMergedConfidence, have.Confidence),
					1-(1-have.Confidence)*(1-v.Confidence)))
				out[path] = have
			case !ok && agree > 0 && contradict == 0:
				out[path] = v
			}
		}
	}
	return out
}

// groupWeight orders the sources of a group: by their highest confidence, then by their number of
// values.
func groupWeight(f Fields) float64 {
	highest := 0.0
	for _, v := range f {
		highest = max(highest, v.Confidence)
	}
	return highest + float64(min(len(f), 9))/1e4
}

func (f Fields) sortedPaths() []string { return slices.Sorted(maps.Keys(f)) }
