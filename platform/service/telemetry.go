package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"muster/platform/console"
)

// LogFormat is the format of log lines.
type LogFormat string

// The log formats. LogAuto is text if the output is a terminal, and JSON otherwise.
const (
	LogAuto LogFormat = "auto"
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// TelemetryConfig configures a [Telemetry]: the program's name and the destination of its logs and traces.
type TelemetryConfig struct {
	// Service is the program's or service's name; it appears in traces as service.name.
	Service string
	// Version appears in traces as service.version.
	Version string
	// LogLevel is the minimum level that is written. The zero value is info.
	LogLevel slog.Level
	// LogFormat defaults to LogAuto.
	LogFormat LogFormat
	// Output receives the log lines; the default is standard error.
	Output io.Writer
	// LookupEnv reads the environment; the default is os.LookupEnv. Only OpenTelemetry variables are read.
	LookupEnv func(string) (string, bool)
}

// Telemetry holds the logger, metrics registry and tracing of one program.
type Telemetry struct {
	Logger *slog.Logger
	// Registry has the process and Go runtime collectors registered.
	Registry *prometheus.Registry
	// Tracing creates tracers. It exports when OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is
	// set, and costs next to nothing otherwise; an incoming trace id is propagated either way.
	Tracing trace.TracerProvider
	// Propagator propagates the trace context as W3C traceparent, tracestate and baggage.
	Propagator propagation.TextMapPropagator

	shutdown func(context.Context) error
}

// NewLogger returns a logger like that of a Telemetry, without the rest of it.
func NewLogger(cfg TelemetryConfig) (*slog.Logger, error) {
	if cfg.Output == nil {
		cfg.Output = os.Stderr
	}
	handler, err := logHandler(cfg)
	if err != nil {
		return nil, err
	}
	return slog.New(&traceHandler{handler}), nil
}

// NewTelemetry returns a Telemetry. It opens no connection: the exporter connects when there is something to export.
func NewTelemetry(ctx context.Context, cfg TelemetryConfig) (*Telemetry, error) {
	if cfg.LookupEnv == nil {
		cfg.LookupEnv = os.LookupEnv
	}
	logger, err := NewLogger(cfg)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register runtime metrics: %w", err)
		}
	}
	t := &Telemetry{
		Logger:   logger,
		Registry: registry,
		Tracing:  noop.NewTracerProvider(),
		Propagator: propagation.NewCompositeTextMapPropagator(
			propagation.TraceContext{}, propagation.Baggage{}),
		shutdown: func(context.Context) error { return nil },
	}
	if wanted, err := exportWanted(cfg.LookupEnv); err != nil || !wanted {
		return t, err
	}
	// The exporter reads its endpoint, headers, certificate and timeout from the OTEL_EXPORTER_OTLP_* variables.
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("open trace exporter: %w", err)
	}
	res, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithProcessPID(),
		resource.WithAttributes(
			attribute.String("service.name", cfg.Service), attribute.String("service.version", cfg.Version)),
		// Last, so that the operator's OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.
		resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, errors.Join(fmt.Errorf("describe trace resource: %w", err), exporter.Shutdown(ctx))
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res))
	t.Tracing = provider
	t.shutdown = provider.Shutdown
	return t, nil
}

// Shutdown sends the buffered spans and stops exporting. Logger and Registry stay usable.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if err := t.shutdown(ctx); err != nil {
		return fmt.Errorf("stop tracing: %w", err)
	}
	return nil
}

// ParseLogLevel parses debug, info, warn or error, in any case, with an optional offset such as "info+2".
func ParseLogLevel(s string) (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s)); err != nil {
		return 0, fmt.Errorf("log level %q: want debug, info, warn or error", s)
	}
	return level, nil
}

// exportWanted reports whether the environment has an endpoint for traces. It returns an error if an endpoint is not a
// URL, for which the exporter would silently drop all traces.
func exportWanted(lookup func(string) (string, bool)) (bool, error) {
	if v, ok := lookup("OTEL_SDK_DISABLED"); ok && strings.EqualFold(v, "true") {
		return false, nil
	}
	wanted := false
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		v, ok := lookup(name)
		if !ok || v == "" {
			continue
		}
		if u, err := url.Parse(v); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return false, fmt.Errorf("%s is not an http or https URL, such as http://localhost:4318", name)
		}
		wanted = true
	}
	return wanted, nil
}

func logHandler(cfg TelemetryConfig) (slog.Handler, error) {
	format := cfg.LogFormat
	if format == LogAuto || format == "" {
		format = LogJSON
		if console.IsTerminal(cfg.Output) {
			format = LogText
		}
	}
	opts, out := &slog.HandlerOptions{Level: cfg.LogLevel}, console.Writer(cfg.Output)
	switch format {
	case LogText:
		return slog.NewTextHandler(out, opts), nil
	case LogJSON:
		return slog.NewJSONHandler(out, opts), nil
	default:
		return nil, fmt.Errorf("log format %q: want auto, text or json", format)
	}
}

// traceHandler adds the trace and span ids of the context to log lines.
type traceHandler struct{ slog.Handler }

func (h *traceHandler) Handle(ctx context.Context, r slog.Record) error {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		r.AddAttrs(slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h *traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &traceHandler{h.Handler.WithAttrs(attrs)}
}

func (h *traceHandler) WithGroup(name string) slog.Handler {
	return &traceHandler{h.Handler.WithGroup(name)}
}
