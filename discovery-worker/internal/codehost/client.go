package codehost

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"muster/discovery-worker/internal/people"
	"muster/discovery-worker/internal/provider"
	"muster/schemas/event"
	"muster/schemas/identity"
)

// DefaultURL is the API URL of the public code host.
const DefaultURL = "https://api.github.com"

// Config configures a [Client]. Only URL is required.
type Config struct {
	// URL is the base URL of the REST API. An Enterprise Server serves it below /api/v3.
	URL string
	// Tokens authenticate requests. Without one, requests share the low anonymous rate limit.
	Tokens []string
	// CacheSize is the number of responses cached for conditional requests. Default 10,000.
	CacheSize int
}

// Client looks up accounts. It implements provider.Provider from a username to a profile, which is
// nil if there is no such account. It is safe for concurrent use.
type Client struct {
	base      *url.URL
	http      *http.Client
	platforms *identity.Platforms
	now       func() time.Time

	mu     sync.Mutex
	tokens []*token
	cache  *simplelru.LRU[string, *cachedResponse]
}

// token is a token with its rate limit.
type token struct {
	value        string    // "" for anonymous requests
	remaining    int       // as last reported
	blockedUntil time.Time // must not be used before
}

// cachedResponse is a response with its ETag.
type cachedResponse struct {
	token *token
	etag  string
	value any
}

// New returns a client.
func New(cfg Config, client *http.Client, platforms *identity.Platforms, now func() time.Time) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(cfg.URL, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New("code host: invalid URL; give an http or https URL")
	}
	if cfg.CacheSize <= 0 {
		cfg.CacheSize = 10_000
	}
	c := &Client{base: base, http: client, platforms: platforms, now: now}
	if c.cache, err = simplelru.NewLRU[string, *cachedResponse](cfg.CacheSize, nil); err != nil {
		return nil, fmt.Errorf("code host: %w", err)
	}
	for _, t := range cfg.Tokens {
		if t = strings.TrimSpace(t); t != "" {
			c.tokens = append(c.tokens, &token{value: t, remaining: math.MaxInt})
		}
	}
	if len(c.tokens) == 0 {
		c.tokens = []*token{{remaining: math.MaxInt}}
	}
	return c, nil
}

// Name implements provider.Provider.
func (c *Client) Name() string { return "codehost" }

// user is the part of GET /users/{username} that is used.
type user struct {
	Login     string  `json:"login"`
	ID        int64   `json:"id"`
	Avatar    string  `json:"avatar_url"`
	Type      string  `json:"type"`
	Name      *string `json:"name"`
	Company   *string `json:"company"`
	Blog      *string `json:"blog"`
	Location  *string `json:"location"`
	Email     *string `json:"email"`
	Bio       *string `json:"bio"`
	Microblog *string `json:"twitter_username"`
	Followers int64   `json:"followers"`
	Created   string  `json:"created_at"`
}

type socialAccount struct {
	URL string `json:"url"`
}

// Ask looks up an account by its username. It returns nil if there is none.
func (c *Client) Ask(ctx context.Context, username string) (*people.Profile, error) {
	u, err := fetch[user](ctx, c, "users", username)
	if err != nil || u == nil {
		return nil, err
	}
	if u.Login == "" || u.ID == 0 {
		return nil, provider.ErrMalformed
	}
	accounts, err := fetch[[]socialAccount](ctx, c, "users", username, "social_accounts")
	if err != nil {
		return nil, err
	}
	p := &people.Profile{
		Platform: identity.Codehost, Username: u.Login, Key: identity.NormalizeUsername(u.Login),
		Identity: strconv.FormatInt(u.ID, 10), Names: valueList(u.Name), Bio: valueOrEmpty(u.Bio),
		Places: valueList(u.Location), Employers: people.ParseCompanies(valueOrEmpty(u.Company)),
		Websites: valueList(u.Blog), Avatar: u.Avatar, Created: u.Created, Followers: u.Followers,
		Person: u.Type != "Organization" && u.Type != "Bot",
	}
	p.Current = len(p.Employers)
	if e, err := identity.NormalizeEmail(valueOrEmpty(u.Email)); err == nil && e != "" {
		p.Emails = []string{e}
	}
	var urls []string
	if accounts != nil {
		for _, a := range (*accounts)[:min(len(*accounts), 20)] {
			urls = append(urls, a.URL)
		}
	}
	for _, a := range c.platforms.FindAccounts(urls) {
		p.Declared = append(p.Declared, event.Account{Platform: a.Platform, Username: a.Username})
	}
	if name := valueOrEmpty(u.Microblog); name != "" {
		p.Declared = append(p.Declared, event.Account{Platform: identity.Microblog, Username: name})
	}
	for _, a := range slices.Concat(c.platforms.FindMentions(p.Bio), c.platforms.FindAccounts(p.Websites)) {
		if a.Platform != identity.Codehost {
			p.Mentioned = append(p.Mentioned, event.Account{Platform: a.Platform, Username: a.Username})
		}
	}
	return p, nil
}

// fetch gets a resource, or nil if it does not exist. If a token is exhausted or rejected, it
// retries with the next one.
func fetch[T any](ctx context.Context, c *Client, path ...string) (*T, error) {
	for i, p := range path {
		path[i] = url.PathEscape(p)
	}
	address := c.base.JoinPath(path...).String()
	for {
		t, cached, err := c.chooseToken(address)
		if err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
		if err != nil {
			return nil, errors.New("write request")
		}
		req.Header.Set("Accept", "application/vnd.github+json")
		req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
		req.Header.Set("User-Agent", "muster")
		if t.value != "" {
			req.Header.Set("Authorization", "Bearer "+t.value)
		}
		if cached != nil {
			req.Header.Set("If-None-Match", cached.etag)
		}
		value := new(T)
		res, err := provider.Fetch(ctx, c.http, req, value, http.StatusOK, http.StatusNotModified, http.StatusNotFound)
		if res == nil && !errors.As(err, new(*provider.RetryError)) {
			return nil, err
		}
		if tryOther := c.updateToken(t, res, err); tryOther {
			continue
		}
		if err != nil {
			return nil, err
		}
		switch res.Status {
		case http.StatusNotFound:
			return nil, nil
		case http.StatusNotModified:
			if cached == nil {
				return nil, provider.ErrMalformed
			}
			value, _ = cached.value.(*T)
			return value, nil
		}
		if etag := res.Header.Get("ETag"); etag != "" {
			c.mu.Lock()
			c.cache.Add(address, &cachedResponse{t, etag, value})
			c.mu.Unlock()
		}
		return value, nil
	}
}

// chooseToken returns the token for a resource: that of the cached response, or the one with the
// highest remaining limit. It returns a provider.RetryError if all tokens are blocked.
func (c *Client) chooseToken(address string) (*token, *cachedResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if cached, ok := c.cache.Get(address); ok && !cached.token.blockedUntil.After(now) {
		return cached.token, cached, nil
	}
	var best *token
	first := time.Time{}
	for _, t := range c.tokens {
		if t.blockedUntil.After(now) {
			if first.IsZero() || t.blockedUntil.Before(first) {
				first = t.blockedUntil
			}
			continue
		}
		if best == nil || t.remaining > best.remaining {
			best = t
		}
	}
	if best == nil {
		err := errors.New("the rate limit of every token is exhausted")
		return nil, nil, &provider.RetryError{After: first.Sub(now), Err: err}
	}
	return best, nil, nil
}

// rejectedTokenPause is how long a rejected token is not used. rateLimitPause applies to a
// rate-limited token if the response names no time.
const (
	rejectedTokenPause = time.Hour
	rateLimitPause     = time.Minute
	// maxTokenPause limits the time that a response names. The host's windows are one hour.
	maxTokenPause = time.Hour + 5*time.Minute
)

// updateToken updates a token from a response, and reports whether another token should be tried.
func (c *Client) updateToken(t *token, res *provider.Head, err error) (tryOther bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	block := func(after time.Duration) { t.blockedUntil = now.Add(min(after, maxTokenPause)) }
	// A secondary rate limit.
	if retry := (*provider.RetryError)(nil); errors.As(err, &retry) {
		block(retry.After)
		return true
	}
	remaining, bad := strconv.Atoi(res.Header.Get("X-RateLimit-Remaining"))
	if bad == nil {
		t.remaining = remaining
		if reset, bad := strconv.ParseInt(res.Header.Get("X-RateLimit-Reset"), 10, 64); bad == nil && remaining == 0 {
			block(time.Unix(reset, 0).Sub(now))
		}
	}
	switch res.Status {
	case http.StatusUnauthorized:
		block(rejectedTokenPause)
		return true
	case http.StatusForbidden, http.StatusTooManyRequests:
		if after, ok := provider.RetryAfter(res.Header, now); ok {
			block(after)
		} else if !t.blockedUntil.After(now) {
			block(rateLimitPause)
		}
		return true
	}
	return false
}

func valueOrEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return strings.TrimSpace(*s)
}

func valueList(s *string) []string {
	if t := valueOrEmpty(s); t != "" {
		return []string{t}
	}
	return nil
}
