// Package discovery is the discovery-worker: it finds the other profiles of a
// person, and makes the profiles of context calls, from tasks that query-api
// publishes, and publishes what it found.
//
// [New] builds a [Service]; its Run consumes event.TopicDiscoveryTask and
// event.TopicContextTask in consumer groups and writes event.TopicDiscovery and
// event.TopicContext, and event.TopicWebhookTask for what is ready after its call
// has ended. Any number of replicas may run.
//
// # Delivery
//
// At least once. A task is acknowledged when its result is published, so a worker
// that is killed leaves its tasks to the next one, and a result may come twice. The next
// one gets tasks again that were finished behind one that was not: those that have an
// outcome in the read models are not done again, and the first outcome counts.
// Equal inputs that are asked for at the same time are worked on once. What is no
// task goes to the dead letters (event.DeadTopic); a task whose caller has left is
// worked on for the next caller, unless it is older than event.DiscoveryTaskAge.
//
// A context task waits while the read models are away, for event.ContextKept, since
// they know whether it was done. When they answer and its profile cannot be made for 15
// minutes, it fails. The delivery of a late profile is published
// before its outcome, and both before the task is acknowledged; its id is the
// request's, so that the webhook-sender makes one delivery of however many.
//
// A stage that fails never fails a task: the result names it and holds what the
// other stages found.
package discovery
