package bus

import (
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
)

// RouterLogger adapts a logger to Watermill's router. It demotes the router's info messages ("Adding handler", "Router
// closed") to debug level: they are routine.
func RouterLogger(logger *slog.Logger) watermill.LoggerAdapter {
	return watermill.NewSlogLoggerWithLevelMapping(logger, map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug})
}
