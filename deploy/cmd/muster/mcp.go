package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"muster/deploy/internal/instance"
	queryapi "muster/query-api"
)

func (c *command) mcpCommand() *cobra.Command {
	var address, key string
	cmd := &cobra.Command{
		Use:     "mcp",
		Short:   "Serve the API as tools for language models (MCP)",
		GroupID: "people",
		Long: `Serves the Model Context Protocol on standard input and output, for a client that starts it as a child
process. Its tools are calls to the API of a running instance, and are limited and charged like them.

The address is --url, else MUSTER_BASE_URL, else that of the instance of the data directory. The key is --api-key, else
MUSTER_API_KEY. If neither is set and the address is that of the data directory's instance, it is the key that
"muster up" printed. Other users of the machine can read flags: prefer the variable.

Clients that support the streamable HTTP transport need no command: they use the instance's address with the path /mcp.

Exit status: 0 when the client closed the input; 2 if it could not start or the connection failed.`,
		Example: `  muster mcp --data-dir .muster
  MUSTER_API_KEY=mk_live_... muster mcp --url https://muster.example.com`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.findAPI(address, key)
			if err != nil {
				return err
			}
			server, err := queryapi.NewMCP(api)
			if err != nil {
				return err
			}
			in, ok := c.std.in.(io.ReadCloser)
			if !ok {
				in = io.NopCloser(c.std.in)
			}
			err = server.Run(cmd.Context(), &mcp.IOTransport{Reader: in, Writer: nopCloser{c.std.out}})
			if err != nil && !errors.Is(err, io.EOF) && cmd.Context().Err() == nil {
				return fmt.Errorf("serve MCP: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&address, "url", "", "address of the API, such as https://muster.example.com")
	cmd.Flags().StringVar(&key, "api-key", "", "API key (MUSTER_API_KEY)")
	return cmd
}

// nopCloser is a writer that is not closed with the connection.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// findAPI returns the API to call. Empty arguments are taken from the environment, or from the data directory.
func (c *command) findAPI(address, key string) (*remoteAPI, error) {
	if address == "" {
		address = c.getenv("MUSTER_BASE_URL")
	}
	if key == "" {
		key = c.getenv("MUSTER_API_KEY")
	}
	if address == "" {
		in, err := instance.Running(c.dataDir)
		if errors.Is(err, instance.ErrNotRunning) {
			err = fmt.Errorf("%w, set --data-dir to another directory, or pass --url", err)
		}
		if err != nil {
			return nil, err
		}
		address = in.BaseURL
		if key == "" {
			key = in.APIKey
		}
	}
	base, err := url.Parse(address)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, errors.New("invalid address of the API: it must start with http:// or https:// and a host")
	}
	if key = strings.TrimSpace(key); key == "" {
		return nil, errors.New("API key is missing: set MUSTER_API_KEY, or pass --api-key")
	}
	return &remoteAPI{base: base, key: key, transport: http.DefaultTransport}, nil
}

// remoteAPI sends requests to the API of an instance. It implements http.RoundTripper.
type remoteAPI struct {
	base      *url.URL
	key       string
	transport http.RoundTripper
}

// RoundTrip implements http.RoundTripper. A POST gets an Idempotency-Key, with which net/http repeats it if the
// connection breaks, and it is charged once.
func (a *remoteAPI) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.Clone(req.Context())
	out.URL.Scheme, out.URL.Host, out.Host = a.base.Scheme, a.base.Host, a.base.Host
	out.URL.User = nil
	if prefix := strings.TrimSuffix(a.base.EscapedPath(), "/"); prefix != "" {
		out.URL.RawPath = prefix + out.URL.EscapedPath()
		out.URL.Path = strings.TrimSuffix(a.base.Path, "/") + out.URL.Path
	}
	out.Header.Set("Authorization", "Bearer "+a.key)
	out.Header.Set("User-Agent", "muster-mcp/"+version())
	if out.Method == http.MethodPost && out.Header.Get("Idempotency-Key") == "" {
		out.Header.Set("Idempotency-Key", rand.Text())
	}
	resp, err := a.transport.RoundTrip(out)
	if err != nil {
		return nil, fmt.Errorf("the API at %s cannot be reached: %w", a.base.Redacted(), err)
	}
	return resp, nil
}
