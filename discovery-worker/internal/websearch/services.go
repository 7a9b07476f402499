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

// Query is one question to a search service.
type Query struct {
	// Text is what is searched for.
	Text string
	// Host is where results shall be from.
	Host string
}

// Result is one page that was found.
type Result struct{ URL, Title, Snippet string }

// Service is a search service: its answers in its own order, the best first.
type Service = provider.Provider[Query, []Result]

// perQuery is how many results are asked for, where a service can be told.
const perQuery = 10

// Endpoint is where a service is, and what it wants to see.
type Endpoint struct {
	// URL is the base, without the path of the search.
	URL string
	// Key authenticates; SearXNG has none.
	Key string
}

// Names of the services, and where they are when nothing else is configured.
const (
	SearXNG = "searxng"
	Brave   = "brave"
	Tavily  = "tavily"
	Exa     = "exa"
)

// DefaultURL is where a service is by default; "" for one that everybody runs by
// themselves.
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

// NewService returns a service by its name.
func NewService(name string, at Endpoint, client *http.Client) (Service, error) {
	if at.URL == "" {
		at.URL = DefaultURL(name)
	}
	base, err := url.Parse(strings.TrimRight(at.URL, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("web search %s: the URL is not one of http or https", name)
	}
	if at.Key == "" && name != SearXNG {
		return nil, fmt.Errorf("web search %s: a key is needed", name)
	}
	s := service{name: name, base: base, key: at.Key, client: client}
	switch name {
	case SearXNG:
		s.request, s.decode = s.searxng, decodeSearXNG
	case Brave:
		s.request, s.decode = s.brave, decodeBrave
	case Tavily:
		s.request, s.decode = s.tavily, decodeTavily
	case Exa:
		s.request, s.decode = s.exa, decodeExa
	default:
		return nil, fmt.Errorf("web search %q: there are %s, %s, %s and %s", name, SearXNG, Brave, Tavily, Exa)
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
		return nil, errors.New("write request") // the error may hold the query
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "muster")
	return s.decode(func(out any) error {
		res, err := provider.Fetch(ctx, s.client, req, out, http.StatusOK)
		if res != nil && res.Status == http.StatusTooManyRequests {
			return limited(res.Header, err)
		}
		return err
	})
}

// limited reads the reset of services that send X-RateLimit-Reset and no
// Retry-After: seconds for each of their windows, as Brave does ("1, 1419704",
// with "0, 14000" remaining). The windows that are used up count.
func limited(h http.Header, err error) error {
	remaining, resets := strings.Split(h.Get("X-RateLimit-Remaining"), ","), strings.Split(h.Get("X-RateLimit-Reset"), ",")
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
	return http.NewRequest(http.MethodGet, u.String(), http.NoBody) //nolint:noctx // Fetch gives it one
}

func (s *service) post(path string, body any) (*http.Request, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(http.MethodPost, s.base.JoinPath(path).String(), bytes.NewReader(b)) //nolint:noctx // Fetch gives it one
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

// onSite writes a query with the operator that restricts it to a host.
func onSite(q Query) string {
	if q.Host == "" {
		return q.Text
	}
	return q.Text + " site:" + q.Host
}

// searxng: docs.searxng.org/dev/search_api. An instance whose settings do not
// list json among the formats answers 403.
func (s *service) searxng(q Query) (*http.Request, error) {
	return s.get("search", url.Values{"q": {onSite(q)}, "format": {"json"}, "safesearch": {"0"}})
}

func decodeSearXNG(fetch func(any) error) ([]Result, error) {
	var answer struct {
		Results []struct {
			URL     string `json:"url"`
			Title   string `json:"title"`
			Content string `json:"content"`
		} `json:"results"`
		// Unresponsive lists engines behind the instance and why they were silent.
		Unresponsive [][]string `json:"unresponsive_engines"`
	}
	if err := fetch(&answer); err != nil {
		return nil, err
	}
	if len(answer.Results) == 0 && len(answer.Unresponsive) > 0 {
		return nil, errors.New("none of the engines behind it answered")
	}
	var out []Result
	for _, r := range answer.Results {
		out = append(out, Result{r.URL, r.Title, r.Content})
	}
	return out, nil
}

// brave: Web Search API, at most 400 characters and 50 words.
func (s *service) brave(q Query) (*http.Request, error) {
	words := strings.Fields(onSite(q))
	for len(words) > 50 || len(words) > 1 && len([]rune(strings.Join(words, " "))) > 400 {
		words = append(words[:len(words)-2], words[len(words)-1]) // the site stays
	}
	req, err := s.get("res/v1/web/search", url.Values{
		"q": {strings.Join(words, " ")}, "count": {strconv.Itoa(perQuery)}, "safesearch": {"off"}, "result_filter": {"web"}, "text_decorations": {"false"},
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
	}{Query: cut(q.Text, 400), Depth: "basic", Max: perQuery}
	if q.Host != "" {
		body.Domains = []string{q.Host}
	}
	req, err := s.post("search", body)
	if err == nil {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	return req, err
}

func decodeTavily(fetch func(any) error) ([]Result, error) {
	var answer struct {
		Results []struct {
			URL     string `json:"url"`
			Title   string `json:"title"`
			Content string `json:"content"`
		} `json:"results"`
	}
	if err := fetch(&answer); err != nil {
		return nil, err
	}
	var out []Result
	for _, r := range answer.Results {
		out = append(out, Result{r.URL, r.Title, r.Content})
	}
	return out, nil
}

// exa: POST /search. Its category "people" knows one platform only and refuses
// other domains, so none is named.
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
	}{Query: q.Text, Type: "auto", Number: perQuery}
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
			URL   string  `json:"url"`
			Title *string `json:"title"`
			Text  string  `json:"text"`
		} `json:"results"`
	}
	if err := fetch(&answer); err != nil {
		return nil, err
	}
	var out []Result
	for _, r := range answer.Results {
		title := ""
		if r.Title != nil {
			title = *r.Title
		}
		out = append(out, Result{r.URL, title, r.Text})
	}
	return out, nil
}

// cut bounds a text in characters.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}
