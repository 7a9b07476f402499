package modeltest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Call is a request that the server received.
type Call struct {
	Model         string
	Authorization string
	// System and User are the first messages of these roles. Messages is the number of all
	// messages.
	System, User string
	Messages     int
	// Last is the last message. After an invalid answer it is the repair request.
	Last string
	// Schema is the schema of response_format, or nil if it was not sent.
	Schema      jsontext.Value
	Temperature *float64
}

// Reply is the response to a call. The zero value is an empty message.
type Reply struct {
	// Status, if not 0 or 200, sends an error with the message Content.
	Status     int
	RetryAfter string
	// Content is the message.
	Content string
	// Raw, if set, is sent instead of a completion.
	Raw string
	// Finish is the finish_reason. Default "stop".
	Finish  string
	Refusal string
	// Hang sends nothing until the caller has gone.
	Hang bool
	// Drip sends the response byte by byte with this pause.
	Drip time.Duration
}

// Server is a scripted server.
type Server struct {
	*httptest.Server

	mu     sync.Mutex
	script func(n int, c Call) Reply
	calls  []Call
	stop   chan struct{}
}

// New starts a server. script returns the reply to call n, starting at 0. The caller must call
// Close.
func New(script func(n int, c Call) Reply) *Server {
	s := &Server{script: script, stop: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	return s
}

// Replies returns a script of consecutive replies. The last one repeats.
func Replies(list ...Reply) func(int, Call) Reply {
	return func(n int, _ Call) Reply { return list[min(n, len(list)-1)] }
}

// URL returns the base URL for a client.
func (s *Server) URL() string { return s.Server.URL + "/v1" }

// Close ends hanging calls and closes the server.
func (s *Server) Close() {
	close(s.stop)
	s.Server.Close()
}

// Script replaces the script.
func (s *Server) Script(script func(n int, c Call) Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

// Calls returns the calls received so far.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}

type request struct {
	Model       string   `json:"model"`
	Temperature *float64 `json:"temperature"`
	Messages    []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
	ResponseFormat struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Name   string         `json:"name"`
			Strict bool           `json:"strict"`
			Schema jsontext.Value `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	var in request
	if r.URL.Path != "/v1/chat/completions" || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	if err := json.UnmarshalRead(r.Body, &in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c := Call{Model: in.Model, Authorization: r.Header.Get("Authorization"), Messages: len(in.Messages),
		Schema: in.ResponseFormat.JSONSchema.Schema, Temperature: in.Temperature}
	for _, m := range in.Messages {
		switch {
		case m.Role == "system" && c.System == "":
			c.System = m.Content
		case m.Role == "user" && c.User == "":
			c.User = m.Content
		}
		c.Last = m.Content
	}
	s.mu.Lock()
	n, script := len(s.calls), s.script
	s.calls = append(s.calls, c)
	s.mu.Unlock()
	s.reply(w, r, script(n, c))
}

func (s *Server) reply(w http.ResponseWriter, r *http.Request, reply Reply) {
	if reply.Hang {
		select {
		case <-r.Context().Done():
		case <-s.stop:
		}
		return
	}
	if reply.RetryAfter != "" {
		w.Header().Set("Retry-After", reply.RetryAfter)
	}
	status, body := http.StatusOK, []byte(reply.Raw)
	if reply.Status != 0 && reply.Status != http.StatusOK {
		status = reply.Status
		body = encode(map[string]any{"error": map[string]any{"message": reply.Content, "type": "error", "param": nil,
			"code": nil}})
	} else if reply.Raw == "" {
		finish := reply.Finish
		if finish == "" {
			finish = "stop"
		}
		message := map[string]any{"role": "assistant", "content": reply.Content}
		if reply.Refusal != "" {
			message["refusal"] = reply.Refusal
		}
		body = encode(map[string]any{
			"id": "c", "object": "chat.completion", "created": 1, "model": "scripted",
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}},
			"usage":   map[string]any{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
		})
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if reply.Drip == 0 {
		_, _ = w.Write(body) // the caller may have gone
		return
	}
	ticker := time.NewTicker(reply.Drip)
	defer ticker.Stop()
	for _, b := range body {
		if _, err := w.Write([]byte{b}); err != nil {
			return
		}
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		case <-s.stop:
			return
		}
	}
}

// encode marshals a value. It panics on unsupported types.
func encode(v any) []byte {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return b
}

// Data returns the delimited data of a call, by name.
func (c Call) Data() map[string]string {
	out := make(map[string]string)
	lines := strings.Split(c.User, "\n")
	name, mark := "", ""
	var text []string
	for _, l := range lines {
		switch {
		case mark == "" && strings.HasPrefix(l, "BEGIN "):
			parts := strings.SplitN(l, " ", 3)
			mark, name, text = parts[1], parts[len(parts)-1], nil
		case mark != "" && l == "END "+mark:
			out[name], mark = strings.Join(text, "\n"), ""
		default:
			text = append(text, l)
		}
	}
	return out
}
