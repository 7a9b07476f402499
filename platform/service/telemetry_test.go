package service_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"muster/platform/service"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func noEnv(string) (string, bool) { return "", false }

func TestTelemetry_FormatsLogs(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  service.TelemetryConfig
		want string
	}{
		"JSON without a terminal": {service.TelemetryConfig{}, `"msg":"shown"`},
		"text on request":         {service.TelemetryConfig{LogFormat: service.LogText}, `msg=shown`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			tc.cfg.Output, tc.cfg.LookupEnv = &out, noEnv
			tel, err := service.NewTelemetry(t.Context(), tc.cfg)
			require.NoError(t, err)
			tel.Logger.Debug("hidden")
			tel.Logger.Info("shown")
			require.Contains(t, out.String(), tc.want)
			require.NotContains(t, out.String(), "hidden")
			require.NoError(t, tel.Shutdown(t.Context()))
		})
	}
	_, err := service.NewTelemetry(t.Context(), service.TelemetryConfig{LogFormat: "xml"})
	require.ErrorContains(t, err, `log format "xml"`)
}

func TestTelemetry_RegistersRuntimeMetrics(t *testing.T) {
	tel, err := service.NewTelemetry(t.Context(), service.TelemetryConfig{Output: io.Discard, LookupEnv: noEnv})
	require.NoError(t, err)
	n, err := testutil.GatherAndCount(tel.Registry, "go_goroutines", "process_resident_memory_bytes")
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

func TestTelemetry_PropagatesTraceIDWithoutExport(t *testing.T) {
	var out bytes.Buffer
	tel, err := service.NewTelemetry(t.Context(), service.TelemetryConfig{Output: &out, LookupEnv: noEnv})
	require.NoError(t, err)
	ctx := tel.Propagator.Extract(t.Context(), propagation.MapCarrier{"traceparent": parent})
	ctx, span := tel.Tracing.Tracer("test").Start(ctx, "work")
	defer span.End()
	headers := propagation.MapCarrier{}
	tel.Propagator.Inject(ctx, headers)
	require.Equal(t, parent, headers["traceparent"])

	tel.Logger.With("a", 1).WithGroup("g").InfoContext(ctx, "line", slog.Int("b", 2))
	var line struct {
		A int `json:"a"`
		G struct {
			B       int    `json:"b"`
			TraceID string `json:"trace_id"`
		} `json:"g"`
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", line.G.TraceID)
	require.Equal(t, 1, line.A)
	require.Equal(t, 2, line.G.B)
}

func TestTelemetry_ExportsOverHTTP(t *testing.T) {
	received := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- r.URL.Path + " " + string(body)
	}))
	defer collector.Close()
	// The exporter reads the process's environment itself.
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	tel, err := service.NewTelemetry(t.Context(), service.TelemetryConfig{
		Service: "projector", Version: "1.2", Output: io.Discard,
	})
	require.NoError(t, err)
	_, span := tel.Tracing.Tracer("test").Start(t.Context(), "insert batch", trace.WithSpanKind(trace.SpanKindConsumer))
	span.End()
	require.NoError(t, tel.Shutdown(context.WithoutCancel(t.Context())))
	got := <-received
	require.Contains(t, got, "/v1/traces ")
	require.Contains(t, got, "insert batch")
	require.Contains(t, got, "projector")
}

func TestTelemetry_CanBeDisabled(t *testing.T) {
	env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}
	tel, err := service.NewTelemetry(t.Context(), service.TelemetryConfig{Output: io.Discard,
		LookupEnv: func(k string) (string, bool) { v, ok := env[k]; return v, ok }})
	require.NoError(t, err)
	_, span := tel.Tracing.Tracer("test").Start(t.Context(), "x")
	require.False(t, span.IsRecording())
}

func TestTelemetry_RejectsEndpointWithoutScheme(t *testing.T) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		for _, endpoint := range []string{"localhost:4318", "127.0.0.1:4318", "collector", "grpc://collector:4317"} {
			env := map[string]string{name: endpoint}
			_, err := service.NewTelemetry(t.Context(), service.TelemetryConfig{Output: io.Discard,
				LookupEnv: func(k string) (string, bool) { v, ok := env[k]; return v, ok }})
			require.EqualError(t, err, name+" is not an http or https URL, such as http://localhost:4318")
		}
	}
}

func TestParseLogLevel_AcceptsAnyCaseAndRejectsUnknownLevels(t *testing.T) {
	level, err := service.ParseLogLevel("Warn")
	require.NoError(t, err)
	require.Equal(t, slog.LevelWarn, level)
	_, err = service.ParseLogLevel("loud")
	require.ErrorContains(t, err, `"loud"`)
}
