package queryapi

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"muster/query-api/internal/docs"
	"muster/query-api/internal/search/clause"
)

//go:embed openapi.yaml
var descriptionYAML []byte

// Description returns the OpenAPI 3.1 document of the API as JSON, in source order.
func Description() ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(descriptionYAML, &document); err != nil {
		return nil, fmt.Errorf("read the API description: %w", err)
	}
	var out bytes.Buffer
	if err := writeJSON(jsontext.NewEncoder(&out), &document); err != nil {
		return nil, fmt.Errorf("write the API description: %w", err)
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// NewDocs returns a handler of the documentation at /docs and below it, without the interactive reference: the guides
// and pages, which are rendered on the first request. statusPath is the path of the page that it links as the status of
// the process.
func NewDocs(pages fs.FS, statusPath string) http.Handler {
	render := sync.OnceValues(func() (*docs.Handler, error) {
		return docs.New(docs.Config{Clauses: clause.Page(), Pages: pages, StatusPath: statusPath})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, err := render()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// writeJSON writes a YAML node as JSON and preserves the order of keys.
func writeJSON(to *jsontext.Encoder, node *yaml.Node) error {
	switch node.Kind {
	case yaml.DocumentNode:
		return writeJSON(to, node.Content[0])
	case yaml.MappingNode, yaml.SequenceNode:
		begin, end := jsontext.BeginObject, jsontext.EndObject
		if node.Kind == yaml.SequenceNode {
			begin, end = jsontext.BeginArray, jsontext.EndArray
		}
		if err := to.WriteToken(begin); err != nil {
			return err
		}
		for i, child := range node.Content {
			var err error
			if node.Kind == yaml.MappingNode && i%2 == 0 {
				err = to.WriteToken(jsontext.String(child.Value))
			} else {
				err = writeJSON(to, child)
			}
			if err != nil {
				return err
			}
		}
		return to.WriteToken(end)
	case yaml.ScalarNode:
		var value any
		if err := node.Decode(&value); err != nil {
			return err
		}
		return json.MarshalEncode(to, value)
	default:
		return errors.New("aliases are not supported")
	}
}
