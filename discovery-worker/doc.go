// Package discovery is the discovery-worker: it finds the other profiles of a
// person, from tasks that query-api publishes, and publishes what it found.
//
// [New] builds a [Service]; its Run consumes event.TopicDiscoveryTask in a
// consumer group and writes event.TopicDiscovery. Any number of replicas may run.
//
// # Delivery
//
// At least once. A task is acknowledged when its result is published, so a worker
// that is killed leaves its tasks to the next one, and a result may come twice.
// Equal inputs that are asked for at the same time are worked on once. What is no
// task goes to the dead letters (event.DeadTopic); a task whose caller has left is
// worked on for the next caller, unless it is older than event.DiscoveryTaskAge.
//
// A stage that fails never fails a task: the result names it and holds what the
// other stages found.
package discovery
