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

// DefaultURL is the API of the public code host.
const DefaultURL = "https://api.github.com"

// Config says where the code host is. Only URL is required.
type Config struct {
	// URL is the base of its REST API; an Enterprise Server has it below /api/v3.
	URL string
	// Tokens authenticate; without one, lookups share the small limit of strangers.
	Tokens []string
	// Kept is how many answers are kept for conditional requests; default 10,000.
	Kept int
}

// Client looks accounts up. It is safe for concurrent use, and is a
// provider.Provider from a username to a profile; nil is nobody.
type Client struct {
	base      *url.URL
	http      *http.Client
	platforms *identity.Platforms
	now       func() time.Time

	mu     sync.Mutex
	tokens []*token
	kept   *simplelru.LRU[string, *answer]
}

// token is what is known of a token's limit.
type token struct {
	value     string    // "" is no token
	remaining int       // as far as is known
	rests     time.Time // until when it must not be used
}

// answer is one that was given before.
type answer struct {
	token *token
	etag  string
	value any
}

// New returns a client.
func New(cfg Config, client *http.Client, platforms *identity.Platforms, now func() time.Time) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(cfg.URL, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New("code host: the URL is not one of http or https")
	}
	if cfg.Kept <= 0 {
		cfg.Kept = 10_000
	}
	c := &Client{base: base, http: client, platforms: platforms, now: now}
	if c.kept, err = simplelru.NewLRU[string, *answer](cfg.Kept, nil); err != nil {
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

// user is what is read of GET /users/{username}.
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

// Ask looks an account up by its username.
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
		Platform: identity.Codehost, Username: u.Login, Key: identity.UsernameKey(u.Login), Identity: strconv.FormatInt(u.ID, 10),
		Names: texts(u.Name), Bio: text(u.Bio), Places: texts(u.Location), Employers: people.Companies(text(u.Company)),
		Websites: texts(u.Blog), Avatar: u.Avatar, Created: u.Created, Followers: u.Followers,
		Person: u.Type != "Organization" && u.Type != "Bot",
	}
	p.Current = len(p.Employers)
	if e, err := identity.EmailKey(text(u.Email)); err == nil && e != "" {
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
	if name := text(u.Microblog); name != "" {
		p.Declared = append(p.Declared, event.Account{Platform: identity.Microblog, Username: name})
	}
	for _, a := range slices.Concat(c.platforms.FindMentions(p.Bio), c.platforms.FindAccounts(p.Websites)) {
		if a.Platform != identity.Codehost {
			p.Mentioned = append(p.Mentioned, event.Account{Platform: a.Platform, Username: a.Username})
		}
	}
	return p, nil
}

// fetch gets a resource; nil when there is none. A token that is used up or
// refused gives way to the next one.
func fetch[T any](ctx context.Context, c *Client, path ...string) (*T, error) {
	for i, p := range path {
		path[i] = url.PathEscape(p)
	}
	address := c.base.JoinPath(path...).String()
	for {
		t, before, err := c.take(address)
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
		if before != nil {
			req.Header.Set("If-None-Match", before.etag)
		}
		value := new(T)
		res, err := provider.Fetch(ctx, c.http, req, value, http.StatusOK, http.StatusNotModified, http.StatusNotFound)
		if res == nil && !errors.As(err, new(*provider.RetryError)) {
			return nil, err
		}
		if again := c.note(t, res, err); again {
			continue
		}
		if err != nil {
			return nil, err
		}
		switch res.Status {
		case http.StatusNotFound:
			return nil, nil
		case http.StatusNotModified:
			if before == nil {
				return nil, provider.ErrMalformed
			}
			value, _ = before.value.(*T)
			return value, nil
		}
		if etag := res.Header.Get("ETag"); etag != "" {
			c.mu.Lock()
			c.kept.Add(address, &answer{t, etag, value})
			c.mu.Unlock()
		}
		return value, nil
	}
}

// take takes the token for a resource: the one that an earlier answer was given
// to, else the one with the most left.
func (c *Client) take(address string) (*token, *answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if before, ok := c.kept.Get(address); ok && !before.token.rests.After(now) {
		return before.token, before, nil
	}
	var best *token
	first := time.Time{}
	for _, t := range c.tokens {
		if t.rests.After(now) {
			if first.IsZero() || t.rests.Before(first) {
				first = t.rests
			}
			continue
		}
		if best == nil || t.remaining > best.remaining {
			best = t
		}
	}
	if best == nil {
		return nil, nil, &provider.RetryError{After: first.Sub(now), Err: errors.New("every token is used up")}
	}
	return best, nil, nil
}

// refused is how long a token rests that the host does not accept, and limited
// how long one that it wants less of without saying when it may come again.
const (
	refused = time.Hour
	limited = time.Minute
	// longest bounds how long one rests because the host said so: its windows are an hour.
	longest = time.Hour + 5*time.Minute
)

// note keeps what an answer says of its token, and reports whether another token
// should be tried.
func (c *Client) note(t *token, res *provider.Head, err error) (again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	rest := func(after time.Duration) { t.rests = now.Add(min(after, longest)) }
	if retry := (*provider.RetryError)(nil); errors.As(err, &retry) { // the limit of a moment
		rest(retry.After)
		return true
	}
	remaining, bad := strconv.Atoi(res.Header.Get("X-RateLimit-Remaining"))
	if bad == nil {
		t.remaining = remaining
		if reset, bad := strconv.ParseInt(res.Header.Get("X-RateLimit-Reset"), 10, 64); bad == nil && remaining == 0 {
			rest(time.Unix(reset, 0).Sub(now))
		}
	}
	switch res.Status {
	case http.StatusUnauthorized:
		rest(refused)
		return true
	case http.StatusForbidden, http.StatusTooManyRequests:
		if after, ok := provider.RetryAfter(res.Header, now); ok {
			rest(after)
		} else if !t.rests.After(now) {
			rest(limited)
		}
		return true
	}
	return false
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return strings.TrimSpace(*s)
}

func texts(s *string) []string {
	if t := text(s); t != "" {
		return []string{t}
	}
	return nil
}
