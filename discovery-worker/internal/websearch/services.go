package websearch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"muster/discovery-worker/internal/provider"
)

// Query is a query for a search service.
type Query struct {
	// Text is the search text.
	Text string
	// Host restricts the results to a host.
	Host string
}

// Result is a search result.
type Result struct{ URL, Title, Snippet string }

// Service is a search service. It returns its results in its own order, best first.
type Service = provider.Provider[Query, []Result]

// resultsPerQuery is the number of results requested, if a service supports it.
const resultsPerQuery = 10

// Endpoint is the address and key of a service.
type Endpoint struct {
	// URL is the base URL, without the search path.
	URL string
	// Key authenticates requests. SearXNG has none.
	Key string
}

// Names of the services.
const (
	SearXNG = "searxng"
	Brave   = "brave"
	Tavily  = "tavily"
	Exa     = "exa"
)

// DefaultURL returns the public URL of a service, or "" for a self-hosted one.
func DefaultURL(name string) string {
	switch name {
	case Brave:
		return "https://api.search.brave.com"
	case Tavily:
		return "https://api.tavily.com"
	case Exa:
		return "https://api.exa.ai"
	}
	return ""
}

// NewService returns a service by its name. It returns an error for an unknown name, an invalid URL
// or a missing key.
func NewService(name string, at Endpoint, client *http.Client) (Service, error) {
	if at.URL == "" {
		at.URL = DefaultURL(name)
	}
	base, err := url.Parse(strings.TrimRight(at.URL, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("web search %s: invalid URL; give an http or https URL", name)
	}
	if at.Key == "" && name != SearXNG {
		return nil, fmt.Errorf("web search %s: missing API key", name)
	}
	s := service{name: name, base: base, key: at.Key, client: client}
	switch name {
	case SearXNG:
		s.request, s.decode = s.searxng, decodeContents
	case Brave:
		s.request, s.decode = s.brave, decodeBrave
	case Tavily:
		s.request, s.decode = s.tavily, decodeContents
	case Exa:
		s.request, s.decode = s.exa, decodeExa
	default:
		return nil, fmt.Errorf("unknown web search %q; supported are %s, %s, %s and %s", name, SearXNG, Brave, Tavily,
			Exa)
	}
	return &s, nil
}

type service struct {
	name    string
	base    *url.URL
	key     string
	client  *http.Client
	request func(Query) (*http.Request, error)
	decode  func(fetch func(any) error) ([]Result, error)
}

// Name implements provider.Provider.
func (s *service) Name() string { return s.name }

// Ask implements provider.Provider.
func (s *service) Ask(ctx context.Context, q Query) ([]Result, error) {
	req, err := s.request(q)
	if err != nil {
		return nil, errors.New("write request") // the error may contain the query
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "muster")
	return s.decode(func(out any) error {
		res, err := provider.Fetch(ctx, s.client, req, out, http.StatusOK)
		if res != nil && res.Status == http.StatusTooManyRequests {
			return rateLimitError(res.Header, err)
		}
		return err
	})
}

// rateLimitError returns a provider.RetryError for services that send X-RateLimit-Reset instead of
// Retry-After: seconds for each of their windows, as Brave does ("1, 1419704", with "0, 14000"
// remaining). Only exhausted windows count.
func rateLimitError(h http.Header, err error) error {
	remaining := strings.Split(h.Get("X-RateLimit-Remaining"), ",")
	resets := strings.Split(h.Get("X-RateLimit-Reset"), ",")
	var wait time.Duration
	for i, r := range resets {
		seconds, bad := strconv.ParseUint(strings.TrimSpace(r), 10, 31)
		if bad != nil || i < len(remaining) && strings.TrimSpace(remaining[i]) != "0" {
			continue
		}
		wait = max(wait, time.Duration(seconds)*time.Second)
	}
	if wait <= 0 {
		return err
	}
	return &provider.RetryError{After: wait, Err: err}
}

func (s *service) get(path string, values url.Values) (*http.Request, error) {
	u := s.base.JoinPath(path)
	u.RawQuery = values.Encode()
	return http.NewRequest(http.MethodGet, u.String(), http.NoBody) //nolint:noctx // Fetch sets the context
}

func (s *service) post(path string, body any) (*http.Request, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	//nolint:noctx // Fetch sets the context
	req, err := http.NewRequest(http.MethodPost, s.base.JoinPath(path).String(), bytes.NewReader(b))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

// siteQuery returns a query with the operator that restricts it to a host.
func siteQuery(q Query) string {
	if q.Host == "" {
		return q.Text
	}
	return q.Text + " site:" + q.Host
}

// searxng: docs.searxng.org/dev/search_api. An instance without json in its formats answers 403.
func (s *service) searxng(q Query) (*http.Request, error) {
	return s.get("search", url.Values{"q": {siteQuery(q)}, "format": {"json"}, "safesearch": {"0"}})
}

// decodeContents reads responses of SearXNG and Tavily.
func decodeContents(fetch func(any) error) ([]Result, error) {
	var answer struct {
		Results []struct {
			URL     string `json:"url"`
			Title   string `json:"title"`
			Content string `json:"content"`
		} `json:"results"`
		// Unresponsive lists failing engines of a SearXNG instance, with reasons.
		Unresponsive [][]string `json:"unresponsive_engines"`
	}
	if err := fetch(&answer); err != nil {
		return nil, err
	}
	if len(answer.Results) == 0 && len(answer.Unresponsive) > 0 {
		return nil, errors.New("no search engine of the instance responded")
	}
	var out []Result
	for _, r := range answer.Results {
		out = append(out, Result{r.URL, r.Title, r.Content})
	}
	return out, nil
}

// brave: Web Search API, at most 400 characters and 50 words.
func (s *service) brave(q Query) (*http.Request, error) {
	words := strings.Fields(siteQuery(q))
	for len(words) > 50 || len(words) > 1 && len([]rune(strings.Join(words, " "))) > 400 {
		words = append(words[:len(words)-2], words[len(words)-1]) // keep the site operator
	}
	req, err := s.get("res/v1/web/search", url.Values{
		"q": {strings.Join(words, " ")}, "count": {strconv.Itoa(resultsPerQuery)}, "safesearch": {"off"},
		"result_filter": {"web"}, "text_decorations": {"false"},
	})
	if err == nil {
		req.Header.Set("X-Subscription-Token", s.key)
	}
	return req, err
}

func decodeBrave(fetch func(any) error) ([]Result, error) {
	var answer struct {
		Web struct {
			Results []struct {
				URL         string `json:"url"`
				Title       string `json:"title"`
				Description string `json:"description"`
			} `json:"results"`
		} `json:"web"`
	}
	if err := fetch(&answer); err != nil {
		return nil, err
	}
	var out []Result
	for _, r := range answer.Web.Results {
		out = append(out, Result{r.URL, r.Title, r.Description})
	}
	return out, nil
}

// tavily: POST /search, at most 400 characters.
func (s *service) tavily(q Query) (*http.Request, error) {
	body := struct {
		Query   string   `json:"query"`
		Depth   string   `json:"search_depth"`
		Max     int      `json:"max_results"`
		Domains []string `json:"include_domains,omitempty"`
	}{Query: truncate(q.Text, 400), Depth: "basic", Max: resultsPerQuery}
	if q.Host != "" {
		body.Domains = []string{q.Host}
	}
	req, err := s.post("search", body)
	if err == nil {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	return req, err
}

// exa: POST /search. Its category "people" supports one platform only and rejects other domains, so
// none is set.
func (s *service) exa(q Query) (*http.Request, error) {
	type text struct {
		Max int `json:"maxCharacters"`
	}
	body := struct {
		Query    string   `json:"query"`
		Type     string   `json:"type"`
		Number   int      `json:"numResults"`
		Domains  []string `json:"includeDomains,omitempty"`
		Contents struct {
			Text text `json:"text"`
		} `json:"contents"`
	}{Query: q.Text, Type: "auto", Number: resultsPerQuery}
	body.Contents.Text.Max = maxSnippet
	if q.Host != "" {
		body.Domains = []string{q.Host}
	}
	req, err := s.post("search", body)
	if err == nil {
		req.Header.Set("x-api-key", s.key)
	}
	return req, err
}

func decodeExa(fetch func(any) error) ([]Result, error) {
	var answer struct {
		Results []struct {
			URL   string `json:"url"`
			Title string `json:"title"` // or null
			Text  string `json:"text"`
		} `json:"results"`
	}
	if err := fetch(&answer); err != nil {
		return nil, err
	}
	var out []Result
	for _, r := range answer.Results {
		out = append(out, Result{r.URL, r.Title, r.Text})
	}
	return out, nil
}

// truncate cuts a text to n characters.
func truncate(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}
