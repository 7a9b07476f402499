// Package opensearch is a client of an OpenSearch cluster.
//
// A [Client] sends one request to any of several nodes, over TLS and with credentials if they are configured; requests
// to a node that does not respond go to another one. Errors are an *[Error], if the cluster answered, or else
// [ErrUnavailable]. Their texts hold neither host names nor anything of a request, so that they may be logged.
//
// [Client.Bulk] sends bulk requests and returns the outcome of each item.
package opensearch
