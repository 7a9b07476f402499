package openapitest

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json"
)

// coverage is the set of covered parts of the document, by their names in Missing.
type coverage struct {
	mu   sync.Mutex
	seen map[string]struct{}
}

func (m *coverage) add(names ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		m.seen[name] = struct{}{}
	}
}

func (m *coverage) has(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.seen[name]
	return ok
}

// Names of the parts that can be covered.

func answerName(op *openapi3.Operation, status string) string { return op.OperationID + ": " + status }

func headerName(op *openapi3.Operation, status, header string) string {
	return answerName(op, status) + ": header " + header
}

func parameterName(op *openapi3.Operation, in, name string) string {
	return op.OperationID + ": " + in + " parameter " + name
}

func propertyName(op *openapi3.Operation, name string) string {
	return op.OperationID + ": request body's " + name
}

func exampleName(op *openapi3.Operation, body string) string {
	return op.OperationID + ": example of a request body " + body
}

func parameterExampleName(op *openapi3.Operation, parameter, value string) string {
	return op.OperationID + ": example of " + parameter + " " + value
}

func errorName(text string) string { return "example of an error: " + text }

// variable matches the variable parts of error messages: numbers, quoted names, dates and IDs.
var variable = regexp.MustCompile(
	`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d{2}-\d{2}|"[^"]*"|\d+|\bseconds?\b`)

// alike returns an error message without its variable parts.
func alike(detail string) string { return variable.ReplaceAllString(detail, "*") }

// note records the parts covered by a valid exchange.
func (c *Checker) note(
	op *openapi3.Operation, path map[string]string, req *http.Request, sent []byte, resp *http.Response, body []byte,
) error {
	status := strconv.Itoa(resp.StatusCode)
	names := []string{answerName(op, status)}
	for header := range op.Responses.Value(status).Value.Headers {
		if resp.Header.Get(header) != "" {
			names = append(names, headerName(op, status, header))
		}
	}
	if resp.StatusCode >= http.StatusBadRequest {
		var e struct {
			Detail string `json:"detail"`
		}
		if err := json.Unmarshal(body, &e); err != nil {
			return fmt.Errorf("not an error body: %w", err)
		}
		c.coverage.add(append(names, errorName(alike(e.Detail)))...)
		return nil
	}
	for _, p := range op.Parameters {
		var given string
		switch p.Value.In {
		case openapi3.ParameterInQuery:
			given = req.URL.Query().Get(p.Value.Name)
		case openapi3.ParameterInHeader:
			given = req.Header.Get(p.Value.Name)
		case openapi3.ParameterInPath:
			given = path[p.Value.Name]
		}
		if given != "" {
			names = append(names, parameterName(op, p.Value.In, p.Value.Name),
				parameterExampleName(op, p.Value.Name, given))
		}
	}
	if op.RequestBody != nil && isRows(req.Header) {
		names = append(names, exampleName(op, string(sent)))
	} else if op.RequestBody != nil {
		var given map[string]any
		if err := json.Unmarshal(sent, &given); err != nil {
			return fmt.Errorf("request body: %w", err)
		}
		for name, value := range given {
			if value != nil {
				names = append(names, propertyName(op, name))
			}
		}
		whole, err := canonical(given)
		if err != nil {
			return err
		}
		names = append(names, exampleName(op, whole))
	}
	c.coverage.add(names...)
	return nil
}

// canonical returns a value as canonical JSON.
func canonical(v any) (string, error) {
	text, err := json.Marshal(v, json.Deterministic(true))
	return string(text), err
}

// Missing returns the parts of the document that no exchange has covered: responses by operation and status, response
// headers, parameters and properties of successful requests, examples, and the messages of error examples, in which
// numbers and quoted names may differ.
func (c *Checker) Missing() ([]string, error) {
	wanted := make(map[string]struct{})
	want := func(name string) { wanted[name] = struct{}{} }
	for _, path := range c.document.Paths.Map() {
		for _, op := range path.Operations() {
			for status, response := range op.Responses.Map() {
				want(answerName(op, status))
				for header := range response.Value.Headers {
					want(headerName(op, status, header))
				}
			}
			for _, p := range op.Parameters {
				want(parameterName(op, p.Value.In, p.Value.Name))
				for _, value := range examples(p.Value.Example, p.Value.Examples) {
					want(parameterExampleName(op, p.Value.Name, written(value)))
				}
			}
			if op.RequestBody == nil {
				continue
			}
			for kind, content := range op.RequestBody.Value.Content {
				for name := range content.Schema.Value.Properties {
					want(propertyName(op, name))
				}
				for _, value := range examples(content.Example, content.Examples) {
					whole, err := fmt.Sprint(value), error(nil) // rows
					if kind == "application/json" {
						whole, err = canonical(value)
					}
					if err != nil {
						return nil, err
					}
					want(exampleName(op, whole))
				}
			}
		}
	}
	for _, response := range c.document.Components.Responses {
		content := response.Value.Content.Get("application/json")
		for _, value := range examples(content.Example, content.Examples) {
			if e, ok := value.(map[string]any); ok {
				want(errorName(alike(fmt.Sprint(e["detail"]))))
			}
		}
	}
	maps.DeleteFunc(wanted, func(name string, _ struct{}) bool { return c.coverage.has(name) })
	return slices.Sorted(maps.Keys(wanted)), nil
}

func examples(one any, several openapi3.Examples) []any {
	var out []any
	if one != nil {
		out = append(out, one)
	}
	for _, e := range several {
		out = append(out, e.Value.Value)
	}
	return out
}

// written returns a parameter value as in a query string.
func written(value any) string {
	list, ok := value.([]any)
	if !ok {
		return fmt.Sprint(value)
	}
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = fmt.Sprint(v)
	}
	return strings.Join(words, ",")
}
