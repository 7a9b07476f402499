package clickhouse

import (
	"context"
	"log/slog"
)

// quiet is what the driver logs to. What it calls errors and warnings it returns as well, and whoever gets them says what is to be
// said; exceptions of a server can quote what is in its tables.
type quiet struct{ slog.Handler }

func (h quiet) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, slog.LevelDebug)
}

func (h quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, r)
}

func (h quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{h.Handler.WithAttrs(attrs)} }

func (h quiet) WithGroup(name string) slog.Handler { return quiet{h.Handler.WithGroup(name)} }
