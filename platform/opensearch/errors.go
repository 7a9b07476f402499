package opensearch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrUnavailable is the error of a request to which no node responds.
var ErrUnavailable = errors.New("opensearch: unavailable")

// Error is a response with a status other than 2xx. Its text holds the types of the cluster's errors only: their
// reasons quote queries and documents.
type Error struct {
	Status int
	// Types are the types of the error and of its causes, such as index_not_found_exception, outermost first.
	Types []string
	// Reasons are their reasons, in the order of Types. Do not log or show them.
	Reasons []string
}

func (e *Error) Error() string {
	if len(e.Types) == 0 {
		return fmt.Sprintf("opensearch: status %d", e.Status)
	}
	return fmt.Sprintf("opensearch: status %d: %s", e.Status, strings.Join(e.Types, ": "))
}

// Has reports whether one of the causes is of the type.
func (e *Error) Has(kind string) bool {
	for _, t := range e.Types {
		if t == kind {
			return true
		}
	}
	return false
}

// Says reports whether a reason contains the text.
func (e *Error) Says(text string) bool {
	for _, r := range e.Reasons {
		if strings.Contains(r, text) {
			return true
		}
	}
	return false
}

// cause is an error as OpenSearch writes it.
type cause struct {
	Type         string         `json:"type"`
	Reason       jsontext.Value `json:"reason"`
	CausedBy     *cause         `json:"caused_by"`
	RootCause    []cause        `json:"root_cause"`
	FailedShards []struct {
		Reason *cause `json:"reason"`
	} `json:"failed_shards"`
}

// maxCauses bounds the causes that are read of an error.
const maxCauses = 20

func newError(status int, answer []byte) *Error {
	e := &Error{Status: status}
	var body struct {
		Error jsontext.Value `json:"error"`
	}
	var c cause
	// A proxy's page, or an error that is a text, has no types.
	if json.Unmarshal(answer, &body, jsontext.AllowDuplicateNames(true)) == nil &&
		json.Unmarshal(body.Error, &c, jsontext.AllowDuplicateNames(true)) == nil {
		e.add(&c)
	}
	return e
}

func (e *Error) add(c *cause) {
	if c == nil || c.Type == "" || len(e.Types) >= maxCauses {
		return
	}
	var reason string
	_ = json.Unmarshal(c.Reason, &reason) // absent or null in some errors
	e.Types, e.Reasons = append(e.Types, c.Type), append(e.Reasons, reason)
	e.add(c.CausedBy)
	for i := range c.FailedShards {
		e.add(c.FailedShards[i].Reason)
	}
	for i := range c.RootCause {
		if c.RootCause[i].Type != c.Type {
			e.add(&c.RootCause[i])
		}
	}
}

// StatusOf returns the status of the response that err is of, 0 if there was none.
func StatusOf(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// IsNotFound reports whether err is that of an index or alias that does not exist.
func IsNotFound(err error) bool { return StatusOf(err) == http.StatusNotFound }

// IsTransient reports whether the same request may succeed later: the cluster does not respond, is overloaded or
// starting, or rejects the credentials, which an operator can fix.
func IsTransient(err error) bool {
	if errors.Is(err, ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	switch status := StatusOf(err); status {
	case http.StatusTooManyRequests, http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout:
		return true
	default:
		return status >= http.StatusInternalServerError
	}
}

// describe returns the cause of a failed request without addresses.
func describe(err error) string {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var operation *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &authority):
		return "its certificate is signed by an unknown authority"
	case errors.As(err, &name):
		return "its certificate is for another host name"
	case errors.As(err, &certificate):
		return "its certificate is invalid"
	case errors.As(err, &record):
		return "it does not speak TLS"
	case errors.As(err, &dns):
		return "its host name is unknown"
	case errors.As(err, &operation):
		return operation.Op + " failed"
	}
	return "the request failed"
}
