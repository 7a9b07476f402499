// Package discovery is the discovery-worker. It discovers the other profiles of a person and builds
// the profiles of context calls, from tasks of query-api.
//
// [New] builds a [Service]. Its Run consumes event.TopicDiscoveryTask and event.TopicContextTask in
// consumer groups. It writes event.TopicDiscovery, event.TopicContext, and event.TopicWebhookTask
// for results of calls that have ended. Any number of replicas may run.
//
// # Delivery guarantee
//
// At least once. A task is acknowledged when its result is published, so a result may be published
// twice. Tasks are redelivered after a restart if an earlier task was unfinished. Those with an
// outcome in the read models are skipped; the first outcome counts. Concurrent tasks with equal
// input share one execution. Malformed tasks become dead letters (event.DeadLetterTopic). A task whose
// caller has gone is executed for the next caller, unless it is older than event.DiscoveryTaskAge.
//
// A context task is retried for up to event.ContextRetention while the read models are unavailable,
// because they hold its outcome. If they respond and the profile cannot be built for 15 minutes,
// the task fails. The webhook delivery of a late profile is published before its outcome, and both
// before the task is acknowledged. Its ID is the request ID, so the webhook-sender deduplicates it.
//
// A failing stage does not fail a task: the result names the stage and has the findings of the
// others.
package discovery
