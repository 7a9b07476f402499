package opensearch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/opensearch-project/opensearch-go/v4"
)

const (
	// maxResponse bounds a response; pages of 10,000 hits are about 2 MiB.
	maxResponse = 64 << 20
	// connections is the number of idle connections to a node. Searches and bulk requests are concurrent.
	connections = 64
	// attempts is how often a request is sent: to another node if one does not respond.
	attempts = 3
)

// Client sends requests to a cluster. It is safe for concurrent use.
type Client struct {
	cfg    Config
	client *opensearch.Client
	idle   *http.Transport
}

// Open returns a Client. It does not connect. Close must be called.
func Open(cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("opensearch: the default transport is not net/http's")
	}
	transport = transport.Clone()
	transport.Proxy = nil // It is a service of the operator's, as Kafka and ClickHouse are.
	transport.MaxIdleConnsPerHost, transport.MaxIdleConns = connections, 0
	if cfg.TLS != nil {
		transport.TLSClientConfig = cfg.TLS
	}
	client, err := opensearch.NewClient(opensearch.Config{
		Addresses: cfg.Nodes, Username: cfg.Username, Password: cfg.Password, Transport: transport,
		MaxRetries: attempts - 1, RetryOnStatus: []int{http.StatusBadGateway},
	})
	if err != nil {
		return nil, errors.New("opensearch: the addresses of the nodes are invalid") // the cause names them
	}
	return &Client{cfg: cfg, client: client, idle: transport}, nil
}

// Close ends the connections.
func (c *Client) Close() error {
	err := c.client.Close()
	c.idle.CloseIdleConnections()
	return err
}

// Config returns the configuration without credentials.
func (c *Client) Config() Config {
	cfg := c.cfg
	cfg.Username, cfg.Password, cfg.TLS = "", "", nil
	return cfg
}

// Do sends one request, whose path begins with a slash, and decodes the response into out, unless that is nil. It
// returns an *[Error] if the response has another status than 2xx, the error of ctx if that has ended, and
// [ErrUnavailable] if no node responds.
func (c *Client) Do(ctx context.Context, method, path string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return errors.New("opensearch: invalid request path")
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.client.Stream(req)
	if err != nil {
		if res != nil {
			_ = res.Body.Close() // of the last attempt
		}
		if ctx.Err() != nil {
			return fmt.Errorf("opensearch: %w", ctx.Err())
		}
		return fmt.Errorf("%w: %s", ErrUnavailable, describe(err))
	}
	defer res.Body.Close() // read to its end
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("opensearch: %w", ctx.Err())
	case err != nil:
		return fmt.Errorf("%w: the response was interrupted", ErrUnavailable)
	case len(answer) > maxResponse:
		return fmt.Errorf("opensearch: a response is larger than %d MiB", maxResponse>>20)
	case res.StatusCode >= http.StatusMultipleChoices:
		return newError(res.StatusCode, answer)
	case out == nil:
		return nil
	}
	lenient := json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err := json.Unmarshal(answer, out, lenient); err != nil {
		return errors.New("opensearch: a response is not the expected JSON")
	}
	return nil
}

// PollInterval is how often callers should repeat a request that waits for a change.
const PollInterval = 500 * time.Millisecond
