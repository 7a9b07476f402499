package profile

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/customfield"
	"muster/schemas/event"
)

// pathPriority are the paths that are kept first if a profile is too large.
var pathPriority = []string{ //nolint:gochecknoglobals // a constant list
	"first_name", "last_name", "full_name", "personal_email", "codehost.url", "codehost.username", "codehost.id",
	"network.url", "network.username", "network.headline", "current_position.summary", "current_position.start",
	"current_position.company.name", "current_position.company.network_url",
}

// render renders a profile: standard fields with at least minConfidence, custom with one entry for
// each key, the confidences, and the sources (rulings.md, Context).
func render(fields Fields, schema customfield.Schema, generated map[string]Value,
	minConfidence float64) (out jsontext.Value, empty bool, err error) {
	profile, size := make(map[string]any), 0
	confidence, sources := make(map[string]float64), make(map[string]Source)
	empty = true
	// Names and confidences may use the remaining quarter.
	fits := func(v Value) bool {
		source, err := json.Marshal(v.Source)
		n := len(v.JSON) + len(source)
		if err != nil || size+n > event.MaxContextProfile*3/4 {
			return false
		}
		size += n
		return true
	}
	values := make(map[string]any, len(schema))
	for _, f := range schema {
		v, ok := generated[f.Name]
		values[f.Name] = nil
		path := "custom." + f.Name
		confidence[path] = 0
		if !ok {
			continue
		}
		confidence[path] = v.Confidence
		if v.Confidence >= minConfidence && fits(v) {
			values[f.Name], sources[path], empty = v.JSON, v.Source, false
		}
	}
	done := make(map[string]bool)
	for _, path := range append(pathPriority[:len(pathPriority):len(pathPriority)], fields.sortedPaths()...) {
		v, ok := fields[path]
		if done[path] || !ok || v.Confidence < minConfidence || !fits(v) {
			continue
		}
		done[path], empty = true, false
		confidence[path], sources[path] = v.Confidence, v.Source
		setPath(profile, strings.Split(path, "."), v.JSON)
	}
	profile["custom"], profile["confidence"] = values, confidence
	if len(sources) > 0 {
		profile["sources"] = sources
	}
	out, err = json.Marshal(profile, json.Deterministic(true))
	return out, empty, err
}

// setPath sets a value in nested objects.
func setPath(object map[string]any, path []string, v jsontext.Value) {
	for _, name := range path[:len(path)-1] {
		next, ok := object[name].(map[string]any)
		if !ok {
			next = make(map[string]any)
			object[name] = next
		}
		object = next
	}
	object[path[len(path)-1]] = v
}
