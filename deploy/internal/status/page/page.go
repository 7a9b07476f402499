package page

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"

	"muster/deploy/docs"
	"muster/deploy/internal/status"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/platform/service"
	"muster/projector"
	"muster/projector/erasure"
	queryapi "muster/query-api"
	"muster/schemas/readmodel"
)

//go:embed web
var files embed.FS

// Maximum ages of the cached parts. The counts read whole columns of every table.
const (
	light   = time.Second
	heavy   = 15 * time.Second
	timeout = 10 * time.Second
)

// Source is what the page reads.
type Source struct {
	Version string
	// Service is the name of the only service in the process; empty if it runs all of them.
	Service   string
	Readiness func(context.Context) service.Readiness
	Gatherer  prometheus.Gatherer
	Kafka     bus.Config
	// ClickHouse is nil in a process without a connection; then the page has no tables.
	ClickHouse driver.Conn
	// StateDir is the state directory of ingest; if empty, the page has no runs.
	StateDir string
	// DataDir is a directory on the disk whose free space is shown; empty means none.
	DataDir string
	// EraseWithin is the time after which an erasure is overdue; default 24 h.
	EraseWithin time.Duration
	Now         func() time.Time
	// Search shows the consumer that writes the search index.
	Search bool
}

// consumers returns the groups whose lag is shown.
func consumers(search bool) []status.Consumer {
	out := slices.Concat([]status.Consumer{{Group: projector.Group, Topics: projector.Topics()}},
		status.EventConsumers(), status.TaskConsumers())
	if search {
		out = append(out, status.SearchConsumers()...)
	}
	return out
}

// Document is the content of the page. Parts that could not be read keep their previous values, and Problems has the
// reasons.
type Document struct {
	At         time.Time          `json:"at"`
	Began      time.Time          `json:"began"`
	Version    string             `json:"version"`
	Service    string             `json:"service,omitempty"`
	Problems   []string           `json:"problems"`
	Services   []Service          `json:"services"`
	Counters   Counters           `json:"counters"`
	Topics     []status.TopicLag  `json:"topics"`
	Breakers   []Breaker          `json:"breakers"`
	Runs       []Run              `json:"runs"`
	Letters    []Letters          `json:"letters"`
	Erasures   Erasures           `json:"erasures"`
	CountedAt  time.Time          `json:"counted_at,omitzero"`
	ReadModels []status.ReadModel `json:"read_models"`
	Freshness  []Freshness        `json:"freshness"`
	Deliveries []Deliveries       `json:"deliveries"`
}

// Counters are counters since the start of the process; the page computes rates from them. Published counts since the
// topics exist.
type Counters struct {
	Published float64 `json:"published"`
	Projected float64 `json:"projected"`
	Requests  float64 `json:"requests"`
	Errors    float64 `json:"errors"` // requests with a 5xx response
}

// Breaker is a circuit breaker: closed, half-open or open.
type Breaker struct {
	Set   string `json:"set"`
	Key   string `json:"key"`
	State string `json:"state"`
}

// Run is an ingest run. Percent is absent if the total is unknown.
type Run struct {
	ID       string    `json:"id"`
	Kind     string    `json:"kind"`
	State    string    `json:"state"`
	Began    time.Time `json:"began"`
	Files    int       `json:"files"`
	Lines    int64     `json:"lines"`
	Rejected int64     `json:"rejected"`
	Percent  *float64  `json:"percent,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// Letters is a topic of rejected records or dead letters, with the number of retained messages. Unresolved is the
// number of those that were not resubmitted; it is absent if too many messages are retained to count them.
type Letters struct {
	Topic      string `json:"topic"`
	Dead       bool   `json:"dead"`
	Kept       int64  `json:"kept"`
	Unresolved *int64 `json:"unresolved,omitzero"`
}

// Erasures counts erasure requests by state. Overdue counts those that are not deleted in time, in addition.
type Erasures struct {
	Requested int `json:"requested"` // suppressed; stored data is searched
	InForce   int `json:"in_force"`  // all data is found and waits for its deletion
	Deleted   int `json:"deleted"`
	Withdrawn int `json:"withdrawn"`
	Overdue   int `json:"overdue"`
}

// Freshness is the age of the records of a kind.
type Freshness struct {
	Kind    string    `ch:"kind" json:"kind"`
	Records uint64    `ch:"records" json:"records"`
	Oldest  time.Time `ch:"oldest" json:"oldest"`
	Newest  time.Time `ch:"newest" json:"newest"`
}

// Deliveries counts the webhook deliveries of the last seven days with a status.
type Deliveries struct {
	Status string `ch:"status" json:"status"`
	Count  uint64 `ch:"deliveries" json:"count"`
}

// Page serves the status page. It is safe for concurrent use.
type Page struct {
	src     Source
	began   time.Time
	history history
	states  states

	mu           sync.Mutex
	requests     scanned[[]erasure.Status]
	letterCounts scanned[map[string]int64]
	last         Document
	slowProblems []string // problems of the parts with the longer cache time
	heavy        time.Time
}

// New returns a page that reads src. Call Run to record its history.
func New(src Source) *Page {
	if src.EraseWithin <= 0 {
		src.EraseWithin = 24 * time.Hour
	}
	return &Page{src: src, began: src.Now()}
}

// Add registers the page on the admin server: /, /status.json, /history.json and the files that / loads, and the
// documentation at /docs.
func (p *Page) Add(admin *service.Admin) {
	pages := queryapi.NewDocs(docs.Pages(), "/")
	admin.Handle("GET /docs", pages)
	admin.Handle("GET /docs/", pages)
	admin.Handle("GET /{$}", p.file("index.html", "text/html; charset=utf-8"))
	admin.Handle("GET /status.css", p.file("status.css", "text/css; charset=utf-8"))
	admin.Handle("GET /status.js", p.file("status.js", "text/javascript; charset=utf-8"))
	admin.Handle("GET /status.json", serveJSON(func(ctx context.Context) any { return p.Read(ctx) }))
	admin.Handle("GET /history.json", serveJSON(func(context.Context) any { return p.history.read() }))
}

func (p *Page) file(name, kind string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := files.ReadFile("web/" + name)
		if err != nil {
			http.Error(w, "cannot read the file", http.StatusInternalServerError)
			return
		}
		h := w.Header()
		h.Set("Content-Type", kind)
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy",
			"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri "+
				"'none'; form-action 'none'; frame-ancestors 'none'")
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
	})
}

func serveJSON(read func(context.Context) any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := json.Marshal(read(r.Context()))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		// The client may have gone; there is no other place to report that.
		_, _ = w.Write(body)
	})
}

// Read returns a status that is at most a second old; expensive parts are at most fifteen seconds old.
func (p *Page) Read(ctx context.Context) Document {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.src.Now()
	if now.Sub(p.last.At) < light {
		return p.last
	}
	// The result is shared: one viewer who disconnects must not cancel it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	d := p.last
	d.At, d.Began, d.Version, d.Service, d.Problems = now, p.began, p.src.Version, p.src.Service, nil
	d.Services = p.states.observe(status.Services(p.src.Readiness(ctx).Checks), now)
	for _, read := range []func(context.Context, *Document) error{p.lag, p.metrics, p.letters, p.erasures, p.runs} {
		if err := read(ctx, &d); err != nil {
			d.Problems = append(d.Problems, err.Error())
		}
	}
	if p.src.ClickHouse != nil && now.Sub(p.heavy) >= heavy {
		p.slowProblems, p.heavy = nil, now
		for _, read := range []func(context.Context, *Document) error{p.counts, p.freshness, p.deliveries} {
			if err := read(ctx, &d); err != nil {
				p.slowProblems = append(p.slowProblems, err.Error())
			}
		}
	}
	d.Problems = append(append([]string{}, d.Problems...), p.slowProblems...)
	p.last = d
	return d
}

func (p *Page) counts(ctx context.Context, d *Document) error {
	models, err := status.ReadModels(ctx, p.src.ClickHouse)
	if damage, ok := clickhouse.DamageOf(err); ok {
		err = fmt.Errorf("%s: %s", damage, status.DamageHint)
	} else if err != nil {
		return err
	}
	d.ReadModels, d.CountedAt = models, d.At
	return err
}

func (p *Page) freshness(ctx context.Context, d *Document) error {
	var database string
	if err := p.src.ClickHouse.QueryRow(ctx, "SELECT currentDatabase()").Scan(&database); err != nil {
		return err
	}
	return p.src.ClickHouse.Select(ctx, &d.Freshness,
		"SELECT toString(kind) AS kind, sum(records) AS records, min(oldest) AS oldest, max(newest) AS newest FROM "+
			readmodel.ViewsDatabase(database)+".freshness GROUP BY kind ORDER BY kind")
}

func (p *Page) deliveries(ctx context.Context, d *Document) error {
	return p.src.ClickHouse.Select(ctx, &d.Deliveries, `SELECT status, count() AS deliveries FROM (
		SELECT argMax(toString(status), (at, attempt)) AS status FROM webhook_attempts FINAL
		WHERE created_at >= now() - INTERVAL 7 DAY GROUP BY organization_id, delivery_id, created_at
	) GROUP BY status ORDER BY status`)
}
