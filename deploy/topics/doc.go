// Package topics makes the platform's topics in a Kafka cluster. What exists is
// left as it is: an operator chose it.
package topics
