package queryapi

import (
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"muster/query-api/internal/mcptools"
)

// NewMCP returns a Model Context Protocol server with the tools of POST /mcp. Their calls are requests to api, with a
// path but without a host and a key: api adds them. It serves a client that runs the server as its child process.
func NewMCP(api http.RoundTripper) (*mcp.Server, error) {
	description, err := Description()
	if err != nil {
		return nil, err
	}
	s, err := mcptools.New(description, api)
	if err != nil {
		return nil, fmt.Errorf("create the MCP server: %w", err)
	}
	return s.Server, nil
}
