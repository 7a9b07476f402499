package breaker

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Middleware puts a Watermill handler behind the breaker of the message's key. While that is open the handler waits,
// so that the messages behind it wait too and none is failed; the handler is called once per delivery. Only the end
// of the message's context (shutdown, rebalance) ends the wait, with an error that [MayDeadLetter] refuses, which
// leaves the message unacknowledged.
//
// Where the wait may take longer than the consumer may be silent, or one key must not hold up others, use [Set.Do] in
// the handler and give the message back on [ErrOpen] instead.
func Middleware(s *Set, key func(*message.Message) string) message.HandlerMiddleware {
	return func(h message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			return DoWhenClosed(msg.Context(), s, key(msg), func(context.Context) ([]*message.Message, error) {
				return h(msg)
			})
		}
	}
}

// MayDeadLetter says whether an error can be the message's fault. It is false for [ErrOpen] and for a context that
// was cancelled: those messages are healthy and must be delivered again. It is the filter for Watermill's
// PoisonQueueWithFilter, to be combined with what the handler knows to be transient; without a filter a poison queue
// drains a topic of healthy messages while a breaker is open.
func MayDeadLetter(err error) bool {
	return err != nil && !errors.Is(err, ErrOpen) && !errors.Is(err, context.Canceled)
}
