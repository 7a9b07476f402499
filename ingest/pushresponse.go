package ingest

import (
	"cmp"
	"net/http"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"

	"muster/schemas/event"
	"muster/schemas/record"
)

// writeProblem writes a problem response (RFC 9457).
func writeProblem(w http.ResponseWriter, status int, detail string) {
	writeJSON(w, status, struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, detail})
}

// writeJSON writes a JSON response. Statuses from 400 on get the media type of problem details.
func writeJSON(w http.ResponseWriter, status int, response any) {
	body, err := json.Marshal(response)
	if err != nil {
		http.Error(w, "Encoding the response failed.", http.StatusInternalServerError)
		return
	}
	mediaType := "application/json"
	if status >= http.StatusBadRequest {
		mediaType = "application/problem+json"
	}
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	// The client may have disconnected.
	//nolint:gosec // JSON under its own media type is not rendered
	_, _ = w.Write(append(body, '\n'))
}

// acknowledged is the position up to which everything is stored.
type acknowledged struct {
	Lines int64 `json:"lines"`
	// Bytes counts the uncompressed body.
	Bytes int64 `json:"bytes"`
}

// pushResponse is the response body of a push.
type pushResponse struct {
	Run          string         `json:"run"`
	Kind         record.Kind    `json:"kind"`
	Status       int            `json:"status"`
	Complete     bool           `json:"complete"`
	Detail       string         `json:"detail,omitempty"`
	Acknowledged acknowledged   `json:"acknowledged"`
	Counts       []KindCounts   `json:"counts"`
	Rejected     []rejectedLine `json:"rejected"`
	RejectedMore int64          `json:"rejected_more,omitzero"`
}

// rejectedLine is a rejected record in a push response.
type rejectedLine struct {
	Kind   record.Kind `json:"kind"`
	Line   int64       `json:"line"`
	Offset int64       `json:"offset"`
	Path   string      `json:"path,omitempty"`
	Code   string      `json:"code"`
	Reason string      `json:"reason"`
	// Defects has all validation errors of a record that has several, starting with the one above.
	Defects []record.FieldError `json:"defects,omitzero"`
}

// rejectedList collects the first rejected records of a push. It is safe for concurrent use.
type rejectedList struct {
	max  int
	mu   sync.Mutex
	list []rejectedLine
}

func (l *rejectedList) add(r event.Rejected) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) < l.max {
		l.list = append(l.list,
			rejectedLine{r.Kind, r.Source.Line, r.Source.Offset, r.Path, r.Code, r.Reason, r.Defects})
	}
}

// upTo returns the rejected records up to a line, in order. A client pushes later ones again.
func (l *rejectedList) upTo(line int64) []rejectedLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	listed := []rejectedLine{}
	for _, r := range l.list {
		if r.Line <= line {
			listed = append(listed, r)
		}
	}
	slices.SortStableFunc(listed, func(a, b rejectedLine) int { return cmp.Compare(a.Line, b.Line) })
	return listed
}
