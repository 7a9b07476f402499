// Package tlsclient is a client's side of TLS as variables name it, the same for Kafka, ClickHouse and Redis: whom to
// trust, and with which certificate to say who one is.
//
// What renews certificates (cert-manager, Strimzi, Vault) writes new files and restarts nobody: the certificate and its
// key are read at each handshake. The authorities are read once.
package tlsclient
