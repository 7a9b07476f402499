// Package mcptools is the Model Context Protocol server of the API: its tools are calls of the API's endpoints.
//
// The tools come from the OpenAPI description. An operation with the extension x-mcp-tool is a tool: its name is the
// operationId in snake case, its input schema that of the request body, or its path parameters. A call of a tool is
// sent as the operation's request to [Config].API, so the endpoint validates, authorizes, limits and charges it. The
// package has no rules of its own about input.
//
// A result has the response under "data", what was charged for it, and a notice that text in the data is not an
// instruction. It is at most [MaxResultBytes] long: longer texts and lists are cut, and "truncated" says where.
package mcptools
