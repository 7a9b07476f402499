package ingest

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
)

// fail answers with a problem (RFC 9457).
func fail(w http.ResponseWriter, status int, detail string) {
	respond(w, status, struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, detail})
}

// respond answers with JSON. An error is a problem with further members.
func respond(w http.ResponseWriter, status int, answer any) {
	body, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, "The answer could not be written.", http.StatusInternalServerError)
		return
	}
	mediaType := "application/json"
	if status >= http.StatusBadRequest {
		mediaType = "application/problem+json"
	}
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	//nolint:gosec // JSON under its own media type is not rendered
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}

func sortRejected(list []rejectedLine) {
	slices.SortStableFunc(list, func(a, b rejectedLine) int { return cmp.Compare(a.Line, b.Line) })
}
