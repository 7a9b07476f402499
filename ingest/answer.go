package ingest

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
)

// fail writes a problem response (RFC 9457).
func fail(w http.ResponseWriter, status int, detail string) {
	respond(w, status, struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, detail})
}

// respond writes a JSON response. Statuses from 400 on get the media type of problem details.
func respond(w http.ResponseWriter, status int, response any) {
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

func sortRejected(list []rejectedLine) {
	slices.SortStableFunc(list, func(a, b rejectedLine) int { return cmp.Compare(a.Line, b.Line) })
}
