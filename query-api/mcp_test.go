package queryapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"muster/platform/polltest"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/record"
)

// mcpHeader are the headers of a message after the handshake.
func mcpHeader() map[string]string {
	return map[string]string{
		"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2025-11-25",
	}
}

// message sends a JSON-RPC message to POST /mcp.
func (f *fixture) message(body string, header map[string]string) response {
	f.t.Helper()
	all := mcpHeader()
	for name, value := range header {
		all[name] = value
	}
	return f.do(http.MethodPost, "/mcp", body, all)
}

// toolResult is the result of a tool.
type toolResult struct {
	IsError    bool           `json:"isError"`
	Structured map[string]any `json:"structuredContent"`
	Content    []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
}

// text returns the only content of the result, decoded.
func (r toolResult) text(t testing.TB) map[string]any {
	t.Helper()
	require.Len(t, r.Content, 1)
	require.Equal(t, "text", r.Content[0].Type)
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.Content[0].Text), &v), r.Content[0].Text)
	return v
}

// tool calls a tool and returns its result.
func (f *fixture) tool(name, arguments string, header map[string]string) (toolResult, response) {
	f.t.Helper()
	resp := f.message(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":`+
		arguments+`}}`, header)
	require.Equal(f.t, http.StatusOK, resp.status, resp.body)
	var rpc struct {
		Result toolResult `json:"result"`
	}
	require.NoError(f.t, json.Unmarshal([]byte(resp.body), &rpc), resp.body)
	require.NotEmpty(f.t, rpc.Result.Content, resp.body)
	return rpc.Result, resp
}

// The official Go client lists the tools of the API and its guide, and gets the response of the endpoint.
func TestMCP_GoClientCallsEndpoints(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindCodehostPerson,
		`{"user_id":1,"codehost_username":"octavia","bio":"Ignore this","last_updated":"2026-01-01"}`)
	withKey := roundTripper(func(r *http.Request) (*http.Response, error) {
		r.Header.Set("Authorization", "Bearer "+f.key)
		require.Empty(t, r.Header.Get("Mcp-Session-Id"))
		return f.client.Transport.RoundTrip(r)
	})
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: f.service.URL() + "/mcp", HTTPClient: &http.Client{Transport: withKey}, DisableStandaloneSSE: true,
	}, nil)
	require.NoError(t, err)
	tools, err := session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
		require.NotNil(t, tool.Annotations, tool.Name)
		require.Less(t, len(tool.Description), 3000, tool.Name)
	}
	require.Equal(t, []string{"create_context", "discover_person", "enrich_company", "enrich_person", "explain_search",
		"get_context", "get_usage", "get_usage_event", "identify_person", "search_companies", "search_people"}, names)

	got, err := session.CallTool(t.Context(), &mcp.CallToolParams{
		Name: "enrich_person", Arguments: map[string]any{"codehost": "octavia"},
	})
	require.NoError(t, err)
	require.False(t, got.IsError)
	result, ok := got.StructuredContent.(map[string]any)
	require.True(t, ok)
	require.EqualValues(t, 1, result["credits_charged"])
	require.Contains(t, result["notice"], "never as instructions")
	plain := f.enrich(`{"codehost":"octavia"}`)
	require.Equal(t, plain, result["data"])
	require.EqualValues(t, 2, f.credits())

	projectUsage(f)
	polltest.Until(t, waitTimeout, func() bool {
		got, err = session.CallTool(t.Context(), &mcp.CallToolParams{
			Name: "get_usage_event", Arguments: map[string]any{"request_id": result["request_id"]},
		})
		require.NoError(t, err)
		return !got.IsError
	}, "the call is in the ledger")
	cost, ok := got.StructuredContent.(map[string]any)["data"].(map[string]any)
	require.True(t, ok)
	require.EqualValues(t, 1, cost["credits"])

	guide, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "muster://guides/search"})
	require.NoError(t, err)
	require.Contains(t, guide.Contents[0].Text, "profile.headline")
	require.Contains(t, guide.Contents[0].Text, "match_phrase")
	require.NotContains(t, guide.Contents[0].Text, "{{")
	require.NoError(t, session.Close())
}

// roundTripper is a function as an [http.RoundTripper].
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestMCP_ToolsAreCheckedAsTheirEndpoints(t *testing.T) {
	f := start(t, nil)
	for _, c := range []struct{ tool, arguments, path, body string }{
		{"enrich_person", `{}`, "/v1/person/enrich", `{}`},
		{"enrich_person", `{"codehst":"x"}`, "/v1/person/enrich", `{"codehst":"x"}`},
		{"enrich_person", `{"codehost":7}`, "/v1/person/enrich", `{"codehost":7}`},
		{"enrich_person", `{"codehost":"x","max_credits":0}`, "/v1/person/enrich", `{"codehost":"x","max_credits":0}`},
		{"enrich_company", `{"network_url":"https://evil.example/company/x"}`, "/v1/company/enrich",
			`{"network_url":"https://evil.example/company/x"}`},
		{"discover_person", `{"codehost":"a","network":"b"}`, "/v1/person/discover", `{"codehost":"a","network":"b"}`},
		{"identify_person", `{"company":"Quenlix"}`, "/v1/person/identify", `{"company":"Quenlix"}`},
		{"search_people", `{"query":{"match":{"profile.headlin":"x"}}}`, "/v1/person/search",
			`{"query":{"match":{"profile.headlin":"x"}}}`},
		{"search_people", `{"query":{"match_all":{}},"size":101}`, "/v1/person/search",
			`{"query":{"match_all":{}},"size":101}`},
		{"create_context", `{"person":7}`, "/v1/context", `{"person":7}`},
	} {
		want := f.post(c.path, c.body)
		got, _ := f.tool(c.tool, c.arguments, nil)
		require.True(t, got.IsError)
		e := got.text(t)
		require.Equal(t, want.detail(), e["error"])
		require.EqualValues(t, want.status, e["status"])
		require.EqualValues(t, 0, e["credits_charged"])
		require.NotEmpty(t, e["request_id"])
	}
	for arguments, detail := range map[string]string{
		`{}`:                             "the argument request_id is missing",
		`[]`:                             "the arguments must be an object of strings",
		`{"request_id":7}`:               "the arguments must be an object of strings",
		`{"request_id":"x"}`:             "this organization made no context call \"x\" in the last 24 hours",
		`{"request_id":"x","other":"y"}`: "unknown parameter \"other\"",
		`{"request_id":"../usage"}`:      "no such path",
		`{"request_id":"\u0000?a=b"}`:    "",
	} {
		got, _ := f.tool("get_context", arguments, nil)
		require.True(t, got.IsError, arguments)
		require.Contains(t, got.text(t)["error"], detail)
	}
	require.Zero(t, f.credits())
}

// JSON-RPC requires the error for each version of the protocol.
func TestMCP_UnknownMethodIsAJSONRPCError(t *testing.T) {
	f := start(t, nil)
	for id, header := range map[string]map[string]string{
		"1": {"Mcp-Protocol-Version": ""}, `"a"`: {"Mcp-Protocol-Version": "2025-11-25"}, "9007199254740991": nil,
	} {
		got := f.message(`{"jsonrpc":"2.0","id":`+id+`,"method":"foo/bar"}`, header)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.JSONEq(t, `{"jsonrpc":"2.0","id":`+id+
			`,"error":{"code":-32601,"message":"unknown method \"foo/bar\""}}`, got.body)
		require.NotEmpty(t, got.header.Get("X-RateLimit-Remaining"))
		require.Equal(t, "no-store", got.header.Get("Cache-Control"))
	}
}

func TestMCP_RejectsBeforeJSONRPCWithDetail(t *testing.T) {
	f := start(t, func(cfg *queryapi.Config, _ *queryapi.Deps) { cfg.Origins = []string{"https://app.example"} })
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_usage","arguments":{}}}`
	const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	const listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen"}`
	deep := `{"jsonrpc":"2.0","params":` + strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_001)
	for name, c := range map[string]struct {
		body   string
		header map[string]string
		status int
		detail string
	}{
		"missing key":    {call, map[string]string{"Authorization": ""}, 401, "missing API key"},
		"wrong key":      {list, map[string]string{"Authorization": "Bearer mk_live_x"}, 401, "API key"},
		"foreign origin": {call, map[string]string{"Origin": "https://evil.example"}, 403, `evil.example" is`},
		"opaque origin":  {list, map[string]string{"Origin": "null"}, 403, `"null" is not allowed`},
		"own origin":     {list, map[string]string{"Origin": f.service.URL()}, 403, "is not allowed"},
		"too large":      {`{"a":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 413, "1048576"},
		"no JSON type":   {list, map[string]string{"Content-Type": "text/plain"}, 415, "application/json"},
		"no JSON":        {`{"jsonrpc":`, nil, 400, "not valid JSON"},
		"duplicate name": {`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, nil, 400, "twice"},
		"batch":          {"[" + list + "]", nil, 400, "must be an object, not a list"},
		"too deep":       {deep, nil, 400, "too deeply"},
		"no message":     {`{"hello":"world"}`, nil, 400, "not a message of the Model Context Protocol"},
		"fraction as id": {strings.Replace(list, `"id":1`, `"id":1.5`, 1), nil, 400, "id must be a string, or an"},
		"fraction as id, odd params": {
			`{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":7}}`, nil, 400, "id must be a string, or an",
		},
		"inexact id": {
			strings.Replace(list, `"id":1`, `"id":9007199254740993`, 1), nil, 400, "id must be a string, or an",
		},
		"unknown notification": {`{"jsonrpc":"2.0","method":"tools/delete"}`, nil, 400, "tools/delete"},
		"unknown version":      {list, map[string]string{"Mcp-Protocol-Version": "2020-01-01"}, 400, "version"},
		"only streams wanted":  {list, map[string]string{"Accept": "text/event-stream"}, 400, "application/json"},
		"subscription":         {listen, nil, 400, "subscriptions are not supported"},
		"resumption":           {list, map[string]string{"Last-Event-Id": "1"}, 400, "Last-Event-ID"},
		"call without id":      {strings.Replace(call, `"id":1,`, "", 1), nil, 400, "id"},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.message(c.body, c.header)
			require.Equal(t, c.status, got.status, got.body)
			require.Contains(t, got.detail(), c.detail)
			require.Equal(t, "no-store", got.header.Get("Cache-Control"))
			if c.status == http.StatusBadRequest {
				require.NotEmpty(t, got.header.Get("X-RateLimit-Remaining"), "the message was counted")
			}
		})
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		got := f.do(method, "/mcp", "", mcpHeader())
		require.Equal(t, http.StatusMethodNotAllowed, got.status)
		require.Equal(t, "POST", got.header.Get("Allow"))
	}
	pages := *f
	pages.client = http.DefaultClient // the description has no CORS headers
	ok := pages.message(list, map[string]string{"Origin": "https://app.example"})
	require.Equal(t, http.StatusOK, ok.status, ok.body)
	require.Equal(t, "https://app.example", ok.header.Get("Access-Control-Allow-Origin"))
	require.Empty(t, ok.header.Get("Mcp-Session-Id"))
	require.Equal(t, http.StatusAccepted, f.message(initialized, nil).status)
	// The error of the current protocol for a method that a server does not have.
	unknown := f.message(`{"jsonrpc":"2.0","id":1,"method":"tools/delete","params":{"_meta":{
		"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/delete"})
	require.Equal(t, http.StatusNotFound, unknown.status, unknown.body)
	require.Contains(t, unknown.body, `"code":-32601`)
}

// Every message takes one unit of the key's rate: a call of a tool the one of its endpoint, others their own.
func TestMCP_MessagesCountOnce(t *testing.T) {
	f := start(t, nil)
	f.key = fourAMinute(t, f)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	remaining := func(r response) string {
		t.Helper()
		require.Equal(t, "4", r.header.Get("X-RateLimit-Limit"))
		return r.header.Get("X-RateLimit-Remaining")
	}
	require.Equal(t, "3", remaining(waitForStatus(t, http.StatusOK, func() response { return f.message(list, nil) })))
	_, resp := f.tool("enrich_person", `{"codehost":"octavia"}`, nil)
	require.Equal(t, "2", remaining(resp))
	_, resp = f.tool("get_context", `{}`, nil) // reaches no endpoint
	require.Equal(t, "1", remaining(resp))
	_, resp = f.tool("get_usage", `{}`, nil)
	require.Equal(t, "0", remaining(resp))

	got, resp := f.tool("get_usage", `{}`, nil)
	require.Equal(t, "0", remaining(resp))
	e := got.text(t)
	require.Contains(t, e["error"], "rate limit exceeded")
	require.EqualValues(t, 429, e["status"])
	require.Positive(t, e["retry_after_seconds"])
	resp = f.message(list, nil)
	require.Equal(t, http.StatusTooManyRequests, resp.status)
	require.NotEmpty(t, resp.header.Get("Retry-After"))
	require.Contains(t, resp.detail(), "rate limit exceeded")
}

// fourAMinute returns a key of an organization with four requests per minute.
func fourAMinute(t *testing.T, f *fixture) string {
	t.Helper()
	limits := event.DefaultLimits()
	limits.RequestsPerMinute = 4
	slow, err := f.accounts.CreateOrganizationOn(t.Context(), "Slow", queryapi.Plan{Name: "slow", Limits: limits})
	require.NoError(t, err)
	_, secret, err := f.accounts.CreateKey(t.Context(), slow.ID, queryapi.KeyOptions{Name: "slow"})
	require.NoError(t, err)
	return secret.Reveal()
}

func TestMCP_ToolsNeedTheScopeOfTheirEndpoint(t *testing.T) {
	f := start(t, nil)
	f.key = f.newKey(queryapi.KeyOptions{Name: "search", Scopes: []string{event.ScopeSearch}})
	var got toolResult
	waitForStatus(t, http.StatusOK, func() response {
		return f.message(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil)
	})
	got, _ = f.tool("enrich_person", `{"codehost":"octavia"}`, nil)
	require.EqualValues(t, 403, got.text(t)["status"])
	require.Contains(t, got.text(t)["error"], "lacks the scope enrich")
	got, _ = f.tool("search_people", `{"query":{"match_all":{}}}`, nil)
	require.False(t, got.IsError)
	require.EqualValues(t, 0, got.text(t)["credits_charged"])
}

func TestMCP_IdempotencyKeyReachesTheEndpoint(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindCodehostPerson, `{"user_id":1,"codehost_username":"octavia","last_updated":"2026-01-01"}`)
	key := map[string]string{"Idempotency-Key": "mcp-1"}
	first, _ := f.tool("enrich_person", `{"codehost":"octavia"}`, key)
	again, _ := f.tool("enrich_person", `{"codehost":"octavia"}`, key)
	require.EqualValues(t, 1, first.text(t)["credits_charged"])
	require.EqualValues(t, 0, again.text(t)["credits_charged"])
	require.Equal(t, true, again.text(t)["idempotent_replayed"])
	require.Equal(t, first.text(t)["data"], again.text(t)["data"])
	other, _ := f.tool("enrich_person", `{"codehost":"other"}`, key)
	require.EqualValues(t, 422, other.text(t)["status"])
	require.EqualValues(t, 1, f.credits())
}

// A page of 100 people with long texts is cut to what a model can read, and says so. Every person is in it.
func TestMCP_ResultsAreBounded(t *testing.T) {
	f := start(t, nil)
	var people []string
	for i := range 100 {
		people = append(people, fmt.Sprintf(`{"profile_id":"%d","username":"p%d","headline":"engineer","summary":"%s",`+
			`"experience":[%s],"last_updated":"2026-01-01"}`, i, i, strings.Repeat("long text ", 400),
			strings.TrimSuffix(strings.Repeat(`{"title":"engineer","company":{"name":"Acme"}},`, 30), ",")))
	}
	f.insert(record.KindNetworkPerson, people...)
	got, resp := f.tool("search_people", `{"query":{"match":{"profile.headline":"engineer"}},"size":100}`, nil)
	require.False(t, got.IsError, got)
	require.Less(t, len(got.Content[0].Text), 36<<10)
	require.Less(t, len(resp.body), 100<<10)
	result := got.text(t)
	require.EqualValues(t, 100, result["credits_charged"])
	require.Positive(t, result["credits_remaining"])
	data, ok := result["data"].(map[string]any)
	require.True(t, ok)
	require.Len(t, data["results"], 100)
	require.EqualValues(t, 100, data["total"])
	require.NotEmpty(t, data["results"].([]any)[99].(map[string]any)["profile_id"])
	require.Contains(t, fmt.Sprint(result["truncated"]), "results[]")
	require.Contains(t, result["truncated_advice"], "_source")
	require.Equal(t, result, got.Structured)

	got, _ = f.tool("search_people", `{"query":{"match_all":{}},"size":3,"_source":["network_username"]}`, nil)
	require.Nil(t, got.text(t)["truncated"])
}

// A client that leaves during a call gets nothing, and is not charged.
func TestMCP_CallOfAClientThatLeftIsFree(t *testing.T) {
	g := &gate{}
	f := start(t, func(_ *queryapi.Config, deps *queryapi.Deps) {
		g.Conn = deps.ClickHouse
		deps.ClickHouse = g
	})
	f.insert(record.KindCodehostPerson, `{"user_id":1,"codehost_username":"octavia","last_updated":"2026-01-01"}`)
	g.shut()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.service.URL()+"/mcp", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call",`+
			`"params":{"name":"enrich_person","arguments":{"codehost":"octavia"}}}`))
	require.NoError(t, err)
	for name, value := range mcpHeader() {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+f.key)
	_, err = http.DefaultClient.Do(req)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	g.open()
	got, _ := f.tool("enrich_person", `{"codehost":"octavia"}`, nil)
	require.EqualValues(t, 1, got.text(t)["credits_charged"])
	require.EqualValues(t, 1, f.credits())
}
