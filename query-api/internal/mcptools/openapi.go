package mcptools

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// openAPI is the part of an OpenAPI document that describes tools.
type openAPI struct {
	Info struct {
		Title   string `json:"title"`
		Version string `json:"version"`
	} `json:"info"`
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]any `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	ID          string               `json:"operationId"`
	Summary     string               `json:"summary"`
	Description string               `json:"description"`
	Tool        *mcp.ToolAnnotations `json:"x-mcp-tool"`
	Parameters  []struct {
		Name        string         `json:"name"`
		In          string         `json:"in"`
		Description string         `json:"description"`
		Schema      map[string]any `json:"schema"`
	} `json:"parameters"`
	RequestBody struct {
		Content map[string]struct {
			Schema map[string]any `json:"schema"`
		} `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Headers map[string]any `json:"headers"`
	} `json:"responses"`
}

// endpoint is an operation that is a tool.
type endpoint struct {
	method, path string
	// parameters are the names in path.
	parameters []string
	tool       *mcp.Tool
}

// endpoints returns the operations of the document that are tools.
func (d *openAPI) endpoints() ([]endpoint, error) {
	var out []endpoint
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for method, op := range d.Paths[path] {
			if op.Tool == nil {
				continue
			}
			e := endpoint{method: strings.ToUpper(method), path: path}
			if err := e.describe(d, op); err != nil {
				return nil, fmt.Errorf("%s: %w", op.ID, err)
			}
			out = append(out, e)
		}
	}
	return out, nil
}

// describe sets the tool of an endpoint.
func (e *endpoint) describe(d *openAPI, op operation) error {
	var input map[string]any
	if e.method == http.MethodGet {
		properties := map[string]any{}
		for _, p := range op.Parameters {
			if p.In != "path" {
				return fmt.Errorf("parameter %s: tools have parameters in the path only", p.Name)
			}
			property := maps.Clone(p.Schema)
			property["description"] = p.Description
			properties[p.Name] = property
			e.parameters = append(e.parameters, p.Name)
		}
		input = map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
		if len(e.parameters) > 0 {
			input["required"] = e.parameters
		}
	} else {
		schema, err := d.inline(op.RequestBody.Content["application/json"].Schema, 0)
		if err != nil {
			return err
		}
		var isObject bool
		if input, isObject = schema.(map[string]any); !isObject || input["type"] != "object" {
			return fmt.Errorf("the schema of the request body is not of an object")
		}
		// Language models' APIs reject these at the top of a tool's schema. The endpoint checks them.
		for _, name := range []string{"anyOf", "oneOf", "allOf"} {
			delete(input, name)
		}
	}
	op.Tool.Title = op.Summary
	description := op.Summary + ".\n\n"
	if text, ok := input["description"].(string); ok {
		description += "Arguments: " + strings.TrimSpace(text) + "\n\n"
	}
	description += strings.TrimSpace(op.Description) + "\n\n"
	if _, charged := op.Responses["200"].Headers["X-Credits-Charged"]; charged {
		description += "It costs credits; with `dry_run` it returns the maximum cost and is free."
	} else {
		description += "It is free."
	}
	e.tool = &mcp.Tool{
		Name: toolName(op.ID), Title: op.Summary, Description: description, Annotations: op.Tool,
		InputSchema: input, OutputSchema: resultSchema(),
	}
	return nil
}

var capital = regexp.MustCompile(`[A-Z]`)

// toolName returns an operationId in snake case.
func toolName(id string) string {
	return capital.ReplaceAllStringFunc(id, func(s string) string { return "_" + strings.ToLower(s) })
}

// maxSchemaDepth bounds the nesting of schemas; a recursive schema exceeds it.
const maxSchemaDepth = 50

// inline returns a copy of a schema with the schemas that it references.
func (d *openAPI) inline(schema any, depth int) (any, error) {
	if depth > maxSchemaDepth {
		return nil, fmt.Errorf("the schema of the request body is recursive")
	}
	switch s := schema.(type) {
	case map[string]any:
		if ref, ok := s["$ref"].(string); ok {
			target, found := d.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
			if !found {
				return nil, fmt.Errorf("unknown schema %s", ref)
			}
			return d.inline(target, depth+1)
		}
		out := make(map[string]any, len(s))
		for name, value := range s {
			var err error
			if out[name], err = d.inline(value, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(s))
		for i, value := range s {
			var err error
			if out[i], err = d.inline(value, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return schema, nil
}

// readOpenAPI reads an OpenAPI document.
func readOpenAPI(text []byte) (*openAPI, error) {
	var d openAPI
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("read the API description: %w", err)
	}
	return &d, nil
}
