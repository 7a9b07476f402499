package bus

import (
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
)

// RouterLogger adapts a logger to Watermill's router. Its routine messages ("Adding handler", "Router closed") are logged at
// debug level: an operator cannot act on them.
func RouterLogger(logger *slog.Logger) watermill.LoggerAdapter {
	return watermill.NewSlogLoggerWithLevelMapping(logger, map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug})
}
