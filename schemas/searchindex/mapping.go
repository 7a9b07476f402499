package searchindex

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"muster/schemas/readmodel"
)

// Settings are the choices of the operator for a new index.
type Settings struct {
	Shards   int
	Replicas string // "": one, if there are several nodes
}

type object = map[string]any

// Meta is kept with an index.
type Meta struct {
	// Mapping is the [Fingerprint] that the index was created with.
	Mapping string `json:"mapping"`
	// Generation and Partitions are those of the topic of touches whose positions are the versions of documents.
	Generation int64 `json:"generation"`
	Partitions int   `json:"partitions"`
}

// IndexBody returns the body of the request that creates an index, with its write alias.
func IndexBody(n Names, c *readmodel.SearchCollection, index string, s Settings, meta Meta) ([]byte, error) {
	meta.Mapping = Fingerprint(c)
	mapping := mappings(c)
	mapping["_meta"] = meta
	settings := indexSettings()
	settings["number_of_shards"] = max(s.Shards, 1)
	if s.Replicas == "" {
		settings["auto_expand_replicas"] = "0-1"
	} else {
		settings["number_of_replicas"] = s.Replicas
	}
	body, err := json.Marshal(object{
		"settings": object{"index": settings}, "mappings": mapping,
		"aliases": object{n.WriteAlias(index): object{}},
	}, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("search index: encode: %w", err)
	}
	return body, nil
}

// Fingerprint identifies the mapping and the settings: an index with another one must be built again.
func Fingerprint(c *readmodel.SearchCollection) string {
	body, err := json.Marshal(object{"settings": indexSettings(), "mappings": mappings(c)}, json.Deterministic(true))
	if err != nil {
		return "" // maps of strings, numbers and booleans
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:8])
}

// indexSettings are the settings that do not depend on the operator.
func indexSettings() object {
	return object{
		"refresh_interval": RefreshInterval.String(), // without it, an index that is not searched for 30 s is not refreshed
		// A late write of a consumer that left its group is rejected for as long as the deletion is remembered.
		"gc_deletes": "1h",
		// Erased documents are removed from segments (only_expunge_deletes), whatever their share.
		"merge.policy.expunge_deletes_allowed": 0,
		"mapping.nested_objects.limit":         100_000,
		"analysis": object{"analyzer": object{
			GapAnalyzer: object{"type": "standard", "stopwords": []string{GapWord}},
		}},
	}
}

func mappings(c *readmodel.SearchCollection) object {
	root := object{
		"row": object{"properties": object{
			"hash": object{"type": "long"}, "id": object{"type": "keyword"},
			"content": object{"type": "long", "index": false}, "version": object{"type": "long", "index": false},
			"partition": object{"type": "integer"},
		}},
	}
	for _, nested := range c.Nested {
		root[nested] = object{
			"type": "nested", "include_in_parent": true, "dynamic": false, "properties": object{},
		}
	}
	for _, f := range c.Fields {
		at := root
		parts := strings.Split(f.Path, ".")
		for _, part := range parts[:len(parts)-1] {
			if at[part] == nil {
				at[part] = object{"properties": object{}}
			}
			at = properties(at[part])
		}
		at[parts[len(parts)-1]] = fieldMapping(f)
	}
	// Not strict: after an upgrade, an index with the mapping of before accepts the documents of now.
	return object{"dynamic": false, "_source": object{"enabled": false}, "properties": root}
}

func properties(mapping any) object {
	m, _ := mapping.(object)["properties"].(object) // made by mappings
	return m
}

func fieldMapping(f readmodel.SearchField) object {
	switch f.Type {
	case readmodel.SearchText:
		words := object{"type": "text", "analyzer": "whitespace"}
		properties := object{"text": words, "keyword": object{"type": "keyword"}}
		if f.Subfields {
			properties["folded"], properties["code"] = words, words
		}
		return object{"properties": properties}
	case readmodel.SearchBoolean:
		return object{"type": "boolean"}
	default: // Dates are numbers of milliseconds: the cluster has nothing to parse.
		return object{"type": "long"}
	}
}
