package bus

import (
	"context"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
)

// RouterLogger adapts a logger to Watermill's router, which runs until ctx ends. It demotes the router's info messages
// ("Adding handler", "Router closed") to debug level: they are routine. So are its errors once ctx has ended: a handler
// that is interrupted returns its message, and the next process handles it.
func RouterLogger(ctx context.Context, logger *slog.Logger) watermill.LoggerAdapter {
	return routerLogger{
		LoggerAdapter: watermill.NewSlogLoggerWithLevelMapping(logger,
			map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug}),
		stopping: ctx.Done(),
	}
}

type routerLogger struct {
	watermill.LoggerAdapter
	stopping <-chan struct{}
}

// Error implements watermill.LoggerAdapter.
func (l routerLogger) Error(msg string, err error, fields watermill.LogFields) {
	select {
	case <-l.stopping:
		l.Debug(msg, fields.Add(watermill.LogFields{"error": err}))
	default:
		l.LoggerAdapter.Error(msg, err, fields)
	}
}

// With implements watermill.LoggerAdapter.
func (l routerLogger) With(fields watermill.LogFields) watermill.LoggerAdapter {
	return routerLogger{LoggerAdapter: l.LoggerAdapter.With(fields), stopping: l.stopping}
}
