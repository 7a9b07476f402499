package analyst

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"muster/platform/clickhouse"
	"muster/platform/engine"
	"muster/schemas/readmodel"
)

// maxError bounds what is read of an error, in bytes.
const maxError = 8 << 10

// Error is what ClickHouse answers to a statement.
type Error struct {
	// Code is ClickHouse's, such as 60 for a table that does not exist; 0: none was given.
	Code int
	Text string
}

func (e *Error) Error() string { return e.Text }

func errorOf(text string) *Error {
	e := &Error{Text: strings.TrimSpace(text)}
	if digits, _, ok := strings.Cut(strings.TrimPrefix(e.Text, "Code: "), "."); ok {
		e.Code, _ = strconv.Atoi(digits) // 0 for a text of another form
	}
	return e
}

// Client sends statements to one server.
type Client struct {
	base           url.URL // scheme and host
	user, password string
	database       string
	http           *http.Client
	// limited: the user is the embedded engine's analyst.
	limited bool
	// certified: a user without a password is whom the client's certificate names.
	certified bool
}

// Open takes a DSN such as http://user:password@host:8123/muster, of which the
// database is that of the read models. With ownUser false it asks as the embedded engine's analyst of the same
// password, who reads every database and is held to limits.
func Open(cfg clickhouse.Config, ownUser bool) (*Client, error) {
	u, err := url.Parse(cfg.DSN)
	if err != nil {
		return nil, errors.New("the ClickHouse address is not a URL")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the ClickHouse address is %s://: SQL goes through the HTTP interface, set CLICKHOUSE_DSN to http://USER:PASSWORD@HOST:8123/DATABASE", u.Scheme)
	}
	tables := strings.Trim(u.Path, "/")
	if tables == "" {
		tables = "default"
	}
	c := &Client{base: url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}, database: readmodel.ViewsDatabase(tables), http: http.DefaultClient}
	if cfg.TLS != nil {
		if u.Scheme != "https" {
			return nil, errors.New("CLICKHOUSE_TLS_CA_FILE or CLICKHOUSE_TLS_CERT_FILE is set, and the ClickHouse address has no TLS: write https://")
		}
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		cfg.TLS.Apply(transport.TLSClientConfig)
		c.http, c.certified = &http.Client{Transport: transport}, transport.TLSClientConfig.GetClientCertificate != nil
	}
	c.user = u.User.Username()
	c.password, _ = u.User.Password()
	if !ownUser {
		c.user, c.limited = engine.OwnerAnalyst, true
	}
	return c, nil
}

// Query writes the result of one statement to out, in a format of ClickHouse's
// unless the statement names one itself.
func (c *Client) Query(ctx context.Context, statement, format string, settings map[string]string, out io.Writer) error {
	values := url.Values{"database": {c.database}, "default_format": {format}}
	if _, given := settings["output_format_pretty_color"]; !given && c.user == "" {
		values.Set("output_format_pretty_color", "0") // else the engine decides by its own output
	}
	for name, value := range settings {
		values.Set(name, value)
	}
	if c.limited {
		// The embedded analyst is read-only as it is, and may not say so.
		return c.ask(ctx, statement, values, out)
	}
	bare := maps.Clone(values)
	for name, value := range map[string]string{
		"readonly": "2",
		// A failure halfway is then an error and not the end of a file.
		"http_write_exception_in_output_format": "0",
		// The server decides by its own output. Escape sequences belong neither into files nor on terminals, where they
		// cannot be told from those of hostile rows.
		"output_format_pretty_color": "0",
	} {
		if _, given := settings[name]; !given {
			values.Set(name, value)
		}
	}
	err := c.ask(ctx, statement, values, out)
	if failed, ok := errors.AsType[*Error](err); ok && failed.Code == CodeReadonly && strings.Contains(failed.Text, "Cannot modify") {
		// A user with readonly = 1 may not say so either, and nothing was done yet.
		return c.ask(ctx, statement, bare, out)
	}
	return err
}

// CodeReadonly is ClickHouse's of what a read-only user may not do.
const CodeReadonly = 164

func (c *Client) ask(ctx context.Context, statement string, values url.Values, out io.Writer) error {
	target := c.base
	target.RawQuery = values.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), strings.NewReader(statement))
	if err != nil {
		return fmt.Errorf("ask ClickHouse: %w", err)
	}
	switch {
	case c.user == "":
	case c.password == "" && c.certified:
		req.Header.Set("X-ClickHouse-User", c.user)
		req.Header.Set("X-ClickHouse-SSL-Certificate-Auth", "on")
	default:
		req.SetBasicAuth(c.user, c.password)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var where *url.Error // its text has the whole statement's address
		if errors.As(err, &where) {
			err = where.Err
		}
		return fmt.Errorf("ask ClickHouse at %s: %w", c.base.Host, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
		if err != nil {
			return fmt.Errorf("ask ClickHouse: status %s: %w", resp.Status, err)
		}
		return errorOf(string(text))
	}
	if _, err := io.Copy(out, resp.Body); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) { // that is all one learns once a result has begun
			return fmt.Errorf("the server broke the result off, at a limit of rows or time (analysts have 10,000,000 rows and a minute), or because it stopped: %w", err)
		}
		return fmt.Errorf("read the result: %w", err)
	}
	return nil
}
