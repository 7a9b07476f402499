// Package topics creates the platform's topics in a Kafka cluster. Existing topics are
// not changed: an operator configured them.
package topics
