// Package webhook is the webhook-sender: what delivers
// finished results to the endpoints that organizations have registered.
//
// It does not do so yet. No kind of task is handled in this release, and nothing
// in the platform publishes any. What the service does is to stand in its place
// honestly: it watches its topics of tasks and tells how many wait there, as a
// metric and, once, in the log. It joins no consumer group, consumes nothing,
// commits nothing and acknowledges nothing, so a task that another producer puts
// there is kept for the release that can do it (within the topic's retention).
package webhook
