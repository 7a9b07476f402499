// Package searchcluster selects the executor of searches: the one place that reads the OPENSEARCH_ environment variables.
// Without OPENSEARCH_URL there is no cluster, and query-api searches in memory.
package searchcluster

import (
	"errors"
	"fmt"

	"muster/platform/bus"
	"muster/platform/opensearch"
	"muster/platform/service"
	"muster/projector"
	"muster/projector/erasure"
	"muster/projector/searchsink"
	"muster/schemas/searchindex"
)

// Variables returns the environment variables of the cluster.
func Variables() []string {
	return []string{
		opensearch.URLEnv, opensearch.UserEnv, opensearch.PasswordEnv, opensearch.PrefixEnv, opensearch.ShardsEnv,
		opensearch.ReplicasEnv, "OPENSEARCH_TLS_CA_FILE", "OPENSEARCH_TLS_CERT_FILE", "OPENSEARCH_TLS_KEY_FILE",
	}
}

// Cluster is an OpenSearch cluster. A nil Cluster is none.
type Cluster struct {
	client *opensearch.Client
	key    []byte
}

// Open returns the cluster that the environment names, nil if it names none. It does not connect.
func Open(getenv func(string) string, secret *service.RootSecret) (*Cluster, error) {
	cfg, ok, err := opensearch.ConfigFromEnv(getenv)
	if err != nil || !ok {
		return nil, err
	}
	if secret == nil {
		return nil, errors.New("search cluster: no root secret")
	}
	key, err := secret.Key(searchindex.KeyName, searchindex.KeySize)
	if err != nil {
		return nil, fmt.Errorf("search cluster: %w", err)
	}
	client, err := opensearch.Open(cfg)
	if err != nil {
		return nil, err
	}
	return &Cluster{client: client, key: key}, nil
}

// Client returns the client, for query-api.
func (c *Cluster) Client() *opensearch.Client {
	if c == nil {
		return nil
	}
	return c.client
}

// Index returns the index, for the projector.
func (c *Cluster) Index() *projector.SearchIndex {
	if c == nil {
		return nil
	}
	return &projector.SearchIndex{Client: c.client, Key: c.key}
}

// Key returns the key of document IDs.
func (c *Cluster) Key() []byte { return c.key }

// Purger returns what removes deleted documents, for the eraser.
func (c *Cluster) Purger(kafka bus.Config) erasure.SearchIndex {
	if c == nil {
		return nil
	}
	return searchsink.NewPurger(c.client, kafka)
}

// Close ends the connections.
func (c *Cluster) Close() error {
	if c == nil {
		return nil
	}
	return c.client.Close()
}
