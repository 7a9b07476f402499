package mcptools_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"muster/query-api/internal/mcptools"
)

// roundTripper is a function as an [http.RoundTripper].
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

const description = `{
	"info": {"title": "test", "version": "1"},
	"components": {"schemas": {
		"Body": {"type": "object", "description": "One of both.", "anyOf": [{"required": ["a"]}],
			"properties": {"a": {"$ref": "#/components/schemas/Text"},
				"list": {"type": "array", "items": [{"$ref": "#/components/schemas/Text"}]}}},
		"Text": {"type": "string", "maxLength": 5},
		"Loop": {"type": "object", "properties": {"a": {"$ref": "#/components/schemas/Loop"}}}
	}},
	"paths": {
		"/v1/do": {"post": {"operationId": "doIt", "summary": "Do it", "description": "At once.",
			"x-mcp-tool": {"readOnlyHint": true},
			"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Body"}}}},
			"responses": {"200": {"headers": {"X-Credits-Charged": {}}}}}},
		"/v1/get/{id}": {"get": {"operationId": "getIt", "summary": "Get it", "description": "Soon.", "x-mcp-tool": {},
			"parameters": [{"name": "id", "in": "path", "description": "Which.", "schema": {"type": "string"}}],
			"responses": {"200": {}}}},
		"/v1/other": {"get": {"operationId": "other"}}
	}
}`

// connect returns a client of a server with the tools of description.
func connect(t *testing.T, api roundTripper) *mcp.ClientSession {
	t.Helper()
	s, err := mcptools.New([]byte(description), api)
	require.NoError(t, err)
	there, here := mcp.NewInMemoryTransports()
	_, err = s.Connect(t.Context(), there, nil)
	require.NoError(t, err)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), here, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, session.Close()) })
	return session
}

func TestNew_ToolsComeFromTheDescription(t *testing.T) {
	session := connect(t, nil)
	tools, err := session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, tools.Tools, 2)
	do, get := tools.Tools[0], tools.Tools[1]
	require.Equal(t, "do_it", do.Name)
	require.Equal(t, "Do it", do.Title)
	require.Equal(t, "Do it.\n\nArguments: One of both.\n\nAt once.\n\n"+
		"It costs credits; with `dry_run` it returns the maximum cost and is free.", do.Description)
	require.True(t, do.Annotations.ReadOnlyHint)
	schema, err := json.Marshal(do.InputSchema)
	require.NoError(t, err)
	require.JSONEq(t, `{"type": "object", "description": "One of both.", "properties": {
		"a": {"type": "string", "maxLength": 5},
		"list": {"type": "array", "items": [{"type": "string", "maxLength": 5}]}}}`,
		string(schema))
	require.Equal(t, "Get it.\n\nSoon.\n\nIt is free.", get.Description)
	schema, err = json.Marshal(get.InputSchema)
	require.NoError(t, err)
	require.JSONEq(t, `{"type": "object", "additionalProperties": false, "required": ["id"],
		"properties": {"id": {"type": "string", "description": "Which."}}}`, string(schema))
}

func TestNew_RejectsDescriptionsWithoutTools(t *testing.T) {
	for name, change := range map[string]string{
		"recursive schema": strings.Replace(description, `"maxLength": 5`,
			`"x": {"$ref": "#/components/schemas/Loop"}`, 1),
		"unknown schema":  strings.Replace(description, `schemas/Body"}}}`, `schemas/None"}}}`, 1),
		"body of a list":  strings.Replace(description, `schemas/Body"}}}`, `schemas/Text"}}}`, 1),
		"query parameter": strings.Replace(description, `"in": "path"`, `"in": "query"`, 1),
		"not JSON":        "paths:",
	} {
		require.NotEqual(t, description, change, name)
		_, err := mcptools.New([]byte(change), nil)
		require.Error(t, err, name)
	}
}

func TestCall_SendsArgumentsUnchangedAndExplainsFailures(t *testing.T) {
	var sent *http.Request
	var body []byte
	resp, failure := http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(`{"a": 1}`))}, error(nil)
	session := connect(t, func(r *http.Request) (*http.Response, error) {
		sent = r
		body, _ = io.ReadAll(r.Body)
		return &resp, failure
	})
	call := func(name string, arguments any) (string, bool) {
		t.Helper()
		got, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: name, Arguments: arguments})
		require.NoError(t, err)
		text, ok := got.Content[0].(*mcp.TextContent)
		require.True(t, ok)
		return text.Text, got.IsError
	}
	text, isError := call("do_it", jsontext.Value(`{"b":1e400,"b ":"\u0000"}`))
	require.False(t, isError)
	require.Contains(t, text, `"data":{"a":1}`)
	require.Equal(t, "/v1/do", sent.URL.String())
	require.Equal(t, "application/json", sent.Header.Get("Content-Type"))
	require.Equal(t, `{"b":1e400,"b ":"\u0000"}`, string(body))

	resp.Body = io.NopCloser(bytes.NewReader([]byte(`{}`)))
	_, _ = call("get_it", map[string]any{"id": "a/../b?c=d#e"})
	require.Equal(t, "/v1/get/a%2F..%2Fb%3Fc=d%23e", sent.URL.String())

	resp.Body = io.NopCloser(strings.NewReader("<html>"))
	text, isError = call("do_it", nil)
	require.True(t, isError)
	require.Equal(t, "{}", string(body))
	require.JSONEq(t, `{"error": "the response of the API is not JSON", "status": 200, "credits_charged": 0}`, text)

	resp = http.Response{StatusCode: 502, Body: io.NopCloser(strings.NewReader("<html>"))}
	text, _ = call("do_it", nil)
	require.JSONEq(t, `{"error": "Bad Gateway", "status": 502, "credits_charged": 0}`, text)

	failure = errors.New("no route")
	text, isError = call("do_it", nil)
	require.True(t, isError)
	require.JSONEq(t, `{"error": "no route", "credits_charged": 0}`, text)
}
