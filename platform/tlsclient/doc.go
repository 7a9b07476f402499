// Package tlsclient reads the client side of TLS from environment variables, in the same way for Kafka, ClickHouse and
// Redis: the authorities to trust and the client certificate.
//
// Tools that renew certificates (cert-manager, Strimzi, Vault) write new files without restarting clients. So the
// certificate and its key are read on each handshake. The authorities are read once.
package tlsclient
