package v1

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"
	"go.yaml.in/yaml/v3"

	"muster/query-api/internal/docs"
)

// described is the part of openapi.yaml that the table of operations repeats.
type described struct {
	Paths map[string]map[string]struct {
		OperationID string                 `yaml:"operationId"`
		Security    *[]map[string][]string `yaml:"security"`
		Parameters  []struct {
			Name, In string
			Ref      string `yaml:"$ref"`
			Explode  *bool  `yaml:"explode"` // false for lists
		} `yaml:"parameters"`
		RequestBody any            `yaml:"requestBody"`
		Responses   map[string]any `yaml:"responses"`
	} `yaml:"paths"`
}

func TestOperations_MatchOpenAPI(t *testing.T) {
	text, err := os.ReadFile("../../openapi.yaml")
	require.NoError(t, err)
	var d described
	require.NoError(t, yaml.Unmarshal(text, &d))
	delete(d.Paths, docs.Path) // pages bypass the checks
	described := 0
	for _, methods := range d.Paths {
		described += len(methods)
	}
	require.Len(t, operations(), described)
	for _, op := range operations() {
		got, ok := d.Paths[op.path][strings.ToLower(op.method)]
		require.True(t, ok, op.id)
		require.Equal(t, op.id, got.OperationID)
		require.Equal(t, op.isPublic(), got.Security != nil, op.id)
		require.Equal(t, op.body != nil || op.upload, got.RequestBody != nil, op.id)
		var names, want, lists, wantLists []string
		idempotent := false
		for _, p := range got.Parameters {
			switch strings.TrimPrefix(p.Ref, "#/components/parameters/") {
			case "IdempotencyKey":
				idempotent = true
			case "DryRunQuery":
				names = append(names, "dry_run")
			case "FieldsQuery":
				names, lists = append(names, "fields"), append(lists, "fields")
			case "MaxCreditsQuery":
				names = append(names, "max_credits")
			default:
				if p.In == "path" || p.In == "header" {
					continue
				}
				names = append(names, p.Name)
				if p.Explode != nil && !*p.Explode {
					lists = append(lists, p.Name)
				}
			}
		}
		require.Equal(t, op.method == http.MethodPost && !op.tools, idempotent, op.id)
		for _, p := range op.parameters {
			want = append(want, p.name)
			if p.list {
				wantLists = append(wantLists, p.name)
			}
		}
		require.Equal(t, want, names, op.id)
		require.Equal(t, wantLists, lists, op.id)
		statuses := map[string]bool{"200": true, "413": true, "500": true, "400": op.invalid == 400,
			"422": op.invalid == 422 || idempotent,
			"409": idempotent, "429": !op.isPublic(), "401": !op.isPublic(), "403": !op.isPublic(),
			"415": op.body != nil || op.upload}
		for status, there := range statuses {
			require.Equal(t, there, got.Responses[status] != nil, "%s %s", op.id, status)
		}
	}
}

func observed(t *testing.T, log *bytes.Buffer, handler http.HandlerFunc) (*httptest.ResponseRecorder, any) {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	require.NoError(t, err)
	s := &Server{logger: slog.New(slog.NewJSONHandler(log, nil)), tracer: noop.NewTracerProvider().Tracer(""),
		metrics: m}
	w := httptest.NewRecorder()
	var escaped any
	func() {
		defer func() { escaped = recover() }()
		s.observe(handler).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	}()
	return w, escaped
}

func TestServer_PanicIs500WithoutDetails(t *testing.T) {
	var log bytes.Buffer
	w, escaped := observed(t, &log, func(http.ResponseWriter, *http.Request) { panic("person@private.example") })
	require.Nil(t, escaped)
	require.Equal(t, 500, w.Code)
	var body map[string]string
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	require.Contains(t, body["detail"], "unexpected")
	require.Contains(t, log.String(), "server_test.go")
	require.NotContains(t, log.String()+w.Body.String(), "private")

	log.Reset()
	w, escaped = observed(t, &log, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	require.Equal(t, http.ErrAbortHandler, escaped)
	require.Empty(t, w.Body.String())

	_, escaped = observed(t, &log, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"half":`))
		panic("late")
	})
	require.Equal(t, http.ErrAbortHandler, escaped, "half an answer ends with a broken connection")
}
