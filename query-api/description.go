package queryapi

import (
	_ "embed"
	"fmt"

	"github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var descriptionYAML []byte

// Description is the API description, an OpenAPI 3.1 document, as JSON.
func Description() ([]byte, error) {
	var document map[string]any
	if err := yaml.Unmarshal(descriptionYAML, &document); err != nil {
		return nil, fmt.Errorf("read the API description: %w", err)
	}
	out, err := json.Marshal(document, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("write the API description: %w", err)
	}
	return out, nil
}
