// Package status tells how a running muster is: which services are ready, how
// far each topic's consumers are behind, and what the read models hold. It asks
// the same places an operator's own tools would: the admin address, Kafka's
// consumer group, ClickHouse.
package status
