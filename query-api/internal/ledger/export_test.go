package ledger

import "context"

// AwaitSettled waits until all published events are settled.
func (o *Outbox) AwaitSettled(ctx context.Context) { o.awaitSettled(ctx) }
