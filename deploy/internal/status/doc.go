// Package status reports the state of a running muster: which services are ready, the
// lag of each topic's consumers, and the size of the read models. It reads the admin
// address, Kafka's consumer groups and ClickHouse.
package status
