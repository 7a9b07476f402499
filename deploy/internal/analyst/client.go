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

// maxError is the maximum length of an error that is read, in bytes.
const maxError = 8 << 10

// Error is the error of a statement from ClickHouse.
type Error struct {
	// Code is the ClickHouse error code, such as 60 for an unknown table; 0 if absent.
	Code int
	Text string
}

func (e *Error) Error() string { return e.Text }

func errorOf(text string) *Error {
	e := &Error{Text: strings.TrimSpace(text)}
	if digits, _, ok := strings.Cut(strings.TrimPrefix(e.Text, "Code: "), "."); ok {
		e.Code, _ = strconv.Atoi(digits) // 0 for another format
	}
	return e
}

// Client sends statements to one server.
type Client struct {
	base           url.URL // scheme and host
	user, password string
	database       string
	http           *http.Client
	// limited is set for the embedded engine's analyst.
	limited bool
	// certified is set if the client certificate identifies a user without a password.
	certified bool
}

// Open returns a client for a DSN such as http://user:password@host:8123/muster with the database of the read
// models. Without ownUser it connects as the embedded engine's analyst with the same password, who can read every
// database, with limits.
func Open(cfg clickhouse.Config, ownUser bool) (*Client, error) {
	u, err := url.Parse(cfg.DSN)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		// The address is not repeated, because it may have a password.
		return nil, errors.New("not the address of ClickHouse's HTTP interface, which SQL needs, such as " +
			"http://USER:PASSWORD@HOST:8123/DATABASE")
	}
	tables := strings.Trim(u.Path, "/")
	if tables == "" {
		tables = "default"
	}
	c := &Client{base: url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}, database: readmodel.ViewsDatabase(tables),
		http: http.DefaultClient}
	if cfg.TLS != nil {
		if u.Scheme != "https" {
			return nil,
				errors.New(
					"CLICKHOUSE_TLS_CA_FILE or CLICKHOUSE_TLS_CERT_FILE is set, but the ClickHouse address has no " +
						"TLS: use https://")
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

// Query writes the result of one statement to out, in the given ClickHouse format unless the statement has its own.
func (c *Client) Query(ctx context.Context, statement, format string, settings map[string]string, out io.Writer) error {
	values := url.Values{"database": {c.database}, "default_format": {format}}
	if _, given := settings["output_format_pretty_color"]; !given && c.user == "" {
		values.Set("output_format_pretty_color", "0") // the default depends on the engine's own output
	}
	for name, value := range settings {
		values.Set(name, value)
	}
	if c.limited {
		// The embedded analyst is always read-only, and may not set readonly.
		return c.ask(ctx, statement, values, out)
	}
	bare := maps.Clone(values)
	for name, value := range map[string]string{
		"readonly": "2",
		// An error in the middle of a result must be an error, not a truncated file.
		"http_write_exception_in_output_format": "0",
		// The default depends on the server's own output. Escape sequences do not belong into files, and on terminals
		// they cannot be distinguished from those of hostile rows.
		"output_format_pretty_color": "0",
	} {
		if _, given := settings[name]; !given {
			values.Set(name, value)
		}
	}
	err := c.ask(ctx, statement, values, out)
	if failed, ok := errors.AsType[*Error](err); ok && failed.Code == CodeReadonly &&
		strings.Contains(failed.Text, "Cannot modify") {
		// A user with readonly = 1 may not set readonly either. Nothing was executed yet.
		return c.ask(ctx, statement, bare, out)
	}
	return err
}

// CodeReadonly is the ClickHouse error code for statements that a read-only user may not run.
const CodeReadonly = 164

func (c *Client) ask(ctx context.Context, statement string, values url.Values, out io.Writer) error {
	target := c.base
	target.RawQuery = values.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), strings.NewReader(statement))
	if err != nil {
		return fmt.Errorf("query ClickHouse: %w", err)
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
		var where *url.Error // its text contains the URL with the whole statement
		if errors.As(err, &where) {
			err = where.Err
		}
		return fmt.Errorf("query ClickHouse at %s: %w", c.base.Host, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
		if err != nil {
			return fmt.Errorf("query ClickHouse: status %s: %w", resp.Status, err)
		}
		return errorOf(string(text))
	}
	if _, err := io.Copy(out, resp.Body); err != nil {
		// After the first row, the server can only close the connection.
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf(
				"truncated result: a limit of rows or time (analysts have 10,000,000 rows and a minute), or the "+
					"server stopped: %w", err)
		}
		return fmt.Errorf("read the result: %w", err)
	}
	return nil
}
