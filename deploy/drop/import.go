package drop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Deps are what an import works with. All are required.
type Deps struct {
	Conn driver.Conn
	Bus  bus.Config
	// Suppressed is loaded.
	Suppressed *suppress.Set
	Now        func() time.Time
}

// Options are an operator's.
type Options struct {
	// By is who imports, for the log.
	By string
	// Exempt are ids of rows whose people may be kept by law: when they are found they
	// stay, and the response says so.
	Exempt map[string]bool
	// Urgent has what is stored removed at once, not within the day.
	Urgent bool
	// DryRun publishes nothing.
	DryRun bool
}

// Outcome is what an import came to.
type Outcome struct {
	Lists []ListOutcome `json:"lists"`
	// Requests are those of which a response may say that people were deleted.
	Requests []string `json:"requests,omitempty"`
}

// ListOutcome is what became of a list's rows.
type ListOutcome struct {
	Name string `json:"list"`
	Rows int    `json:"rows"`
	// Known were imported before. Statuses counts all but the withdrawn.
	Known     int            `json:"known"`
	Statuses  map[Status]int `json:"statuses,omitempty"`
	Withdrawn int            `json:"withdrawn,omitempty"`
	// Kept are withdrawn rows whose hash another request names.
	Kept int      `json:"kept,omitempty"`
	Bad  []BadRow `json:"bad,omitempty"`

	kind     string
	response []response
}

type response struct {
	id     string
	status Status
}

// requestSize is how many rows one request of the log has.
const requestSize = record.MaxIdentifiers

// item is what the log says of a row.
type item struct {
	request, requestedAt, hash string
	typ                        suppress.Type
	status                     Status
	released                   bool
}

// logged is what the log of erasures says of work items and of other requests.
type logged struct {
	items map[string]*item
	// asked counts, by hash, the work items and other requests that are not withdrawn.
	asked map[string]int
	// versions are those with which work items were published, by hash.
	versions map[string][]string
}

// readLog reads the log of erasures.
func readLog(ctx context.Context, cfg bus.Config) (*logged, error) {
	l := &logged{items: make(map[string]*item), asked: make(map[string]int), versions: make(map[string][]string)}
	seen := make(map[string]bool)
	err := bus.Scan(ctx, cfg, []string{event.TopicErasureRequest}, func(m kafka.Message) error {
		var e event.Erasure
		if err := json.Unmarshal(m.Value, &e); err != nil || e.Validate() != nil {
			return nil //nolint:nilerr // what is no event of the log tells nothing
		}
		switch e.Action {
		case event.ErasureRequested:
			if seen[e.RequestID] {
				return nil // it is told again
			}
			seen[e.RequestID] = true
			for _, i := range e.Identifiers {
				if i.Ref != "" {
					l.items[i.Ref] = &item{e.RequestID, e.RequestedAt, i.Hash, suppress.Type(i.Type), Status(i.Status), false}
					if Status(i.Status) == Exempted {
						continue
					}
					l.versions[i.Hash] = append(l.versions[i.Hash], e.RequestedAt)
				}
				l.asked[i.Hash]++
			}
		case event.ErasureWithdrawn:
			for _, i := range e.Identifiers {
				l.asked[i.Hash] = 0
			}
			for _, ref := range e.Released {
				if it := l.items[ref]; it != nil && !it.released {
					it.released = true
					l.asked[it.hash] = max(0, l.asked[it.hash]-1)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the log of erasures: %w", err)
	}
	return l, nil
}

// Import has erased whom the rows of lists mean, and lifts what was withdrawn. The
// log says what each row was found to mean before an entry of the set hides anybody,
// and entries that an import before left out are made up for.
func Import(ctx context.Context, deps Deps, opts Options, lists []List) (*Outcome, error) {
	log, err := readLog(ctx, deps.Bus)
	if err != nil {
		return nil, fmt.Errorf("import deletion lists: %w", err)
	}
	means, err := match(ctx, deps.Conn, lists)
	if err != nil {
		return nil, fmt.Errorf("import deletion lists: %w", err)
	}
	run := &importing{deps: deps, opts: opts, log: log, means: means, waits: make(map[string]bool)}
	run.writer = bus.NewWriter(deps.Bus)
	out := new(Outcome)
	for _, l := range lists {
		o, listErr := run.list(ctx, l)
		if err = listErr; err != nil {
			break
		}
		out.Lists = append(out.Lists, o)
	}
	if err := errors.Join(err, run.writer.Close()); err != nil {
		return nil, fmt.Errorf("import deletion lists: %w", err)
	}
	for id := range run.waits {
		out.Requests = append(out.Requests, id)
	}
	slices.Sort(out.Requests)
	return out, nil
}

type importing struct {
	deps   Deps
	opts   Options
	log    *logged
	means  found
	writer *bus.Writer
	waits  map[string]bool
}

func (r *importing) list(ctx context.Context, l List) (ListOutcome, error) {
	o := ListOutcome{Name: l.Name, Rows: len(l.Rows), Bad: l.Bad, kind: l.Kind, Statuses: make(map[Status]int)}
	part := r.rows
	if l.Kind == Removed {
		part = r.removed
	}
	for rows := range slices.Chunk(l.Rows, requestSize) {
		if err := part(ctx, l, rows, &o); err != nil {
			return o, fmt.Errorf("%s, from line %d: %w", l.Name, rows[0].Line, err)
		}
	}
	return o, nil
}

// rows publishes a request of what is new among rows.
func (r *importing) rows(ctx context.Context, l List, rows []Row, o *ListOutcome) error {
	request, at, err := r.request(event.ErasureRequested, fmt.Sprintf("%s:%d-%d", l.Name, rows[0].Line, rows[len(rows)-1].Line))
	if err != nil {
		return err
	}
	request.Scope, request.Urgent = string(suppress.All), r.opts.Urgent
	var entries []kafka.Message
	for _, row := range rows {
		hash := r.deps.Suppressed.Key().Hash(row.Type, row.Sum)
		known := r.log.items[row.ID]
		if known != nil && known.hash != hash.String() {
			o.Bad = append(o.Bad, BadRow{row.Line, "its ID was another identifier's before"})
			continue
		}
		if known == nil {
			status := r.means.status(row)
			if r.opts.Exempt[row.ID] && status != NotFound {
				status = Exempted
			}
			known = &item{request.RequestID, at, hash.String(), row.Type, status, false}
			r.log.items[row.ID] = known
			request.Identifiers = append(request.Identifiers, event.ErasureIdentifier{Type: string(row.Type), Hash: known.hash, Ref: row.ID, Status: int(status)})
			if status != Exempted {
				r.log.asked[known.hash]++
				r.log.versions[known.hash] = append(r.log.versions[known.hash], at)
			}
		} else {
			o.Known++
		}
		o.Statuses[known.status]++
		o.response = append(o.response, response{row.ID, known.status})
		if known.status == Deleted || known.status == OptedOut {
			r.waits[known.request] = true
		}
		if known.status == Exempted || known.released {
			continue
		}
		m, err := r.entry(hash, row, suppress.Entry{RequestedAt: known.requestedAt, RequestID: known.request})
		if err != nil {
			return err
		}
		if m != nil {
			entries = append(entries, *m)
		}
	}
	if len(request.Identifiers) == 0 {
		request = nil
	}
	return r.publish(ctx, request, entries)
}

// removed lifts what rows say was withdrawn.
func (r *importing) removed(ctx context.Context, l List, rows []Row, o *ListOutcome) error {
	request, at, err := r.request(event.ErasureWithdrawn, fmt.Sprintf("%s:%d-%d", l.Name, rows[0].Line, rows[len(rows)-1].Line))
	if err != nil {
		return err
	}
	var entries []kafka.Message
	for _, row := range rows {
		hash := r.deps.Suppressed.Key().Hash(row.Type, row.Sum)
		known := r.log.items[row.ID]
		o.Withdrawn++
		if known == nil { // it never came here: there is nothing to lift
			continue
		}
		if known.hash != hash.String() {
			o.Bad = append(o.Bad, BadRow{row.Line, "its ID was another identifier's before"})
			continue
		}
		if !known.released {
			known.released = true
			request.Released = append(request.Released, row.ID)
			if known.status != Exempted {
				r.log.asked[known.hash] = max(0, r.log.asked[known.hash]-1)
			}
		} else {
			o.Known++
		}
		if known.status == Exempted {
			continue
		}
		if r.log.asked[known.hash] > 0 {
			o.Kept++
			continue
		}
		ours, err := r.ours(hash, row.Type, known.hash)
		if err != nil {
			return err
		}
		if !ours {
			continue
		}
		m, err := r.entry(hash, row, suppress.Entry{RequestedAt: at, RequestID: request.RequestID, Lifted: true})
		if err != nil {
			return err
		}
		if m != nil {
			entries = append(entries, *m)
			request.Identifiers = append(request.Identifiers, event.ErasureIdentifier{Type: string(row.Type), Hash: known.hash})
		}
	}
	if len(request.Released) == 0 && len(entries) == 0 {
		request = nil
	}
	return r.publish(ctx, request, entries)
}

// ours reports whether what suppresses a hash came off a list.
func (r *importing) ours(h suppress.Hash, t suppress.Type, hash string) (bool, error) {
	for _, at := range r.log.versions[hash] {
		e := suppress.Entry{Type: t, Scope: suppress.All, RequestedAt: at}
		order, err := r.deps.Suppressed.Compare(h, &e)
		if err != nil || order == 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// request begins an event of the log; at is its version.
func (r *importing) request(action event.ErasureAction, place string) (*event.Erasure, string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, "", fmt.Errorf("make a request id: %w", err)
	}
	now := r.deps.Now().UTC()
	at := record.VersionOf(now).String()
	return &event.Erasure{
		RequestID: "er_" + id.String(), Action: action, At: now, RequestedAt: at, By: cmp.Or(r.opts.By, "operator"), Via: "drop", Place: place,
	}, at, nil
}

// entry is the message of a row's entry of the set that is not known yet; nil of one
// that is, or that something newer has replaced.
func (r *importing) entry(h suppress.Hash, row Row, e suppress.Entry) (*kafka.Message, error) {
	set := r.deps.Suppressed
	e.Type, e.Scope, e.Key, e.Mark = row.Type, suppress.All, set.Key().ID(), set.Key().Mark(row.Type, row.Sum)
	if order, err := set.Compare(h, &e); err != nil || order <= 0 {
		return nil, err
	}
	value, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("write suppression entry: %w", err)
	}
	m := &kafka.Message{Topic: event.TopicErasure, Key: []byte(h.String()), Value: value, Headers: bus.SetEvent(nil, bus.Event{
		ID: e.RequestID + "/" + h.String(), Type: event.TypeSuppression, Source: "/muster/drop", Time: r.deps.Now().UTC(), ContentType: "application/json",
	})}
	if r.opts.DryRun {
		return m, nil
	}
	return m, set.Apply(m.Key, m.Value)
}

// publish writes the log first: what it has, the next import makes up for.
func (r *importing) publish(ctx context.Context, request *event.Erasure, entries []kafka.Message) error {
	if r.opts.DryRun {
		return nil
	}
	if request != nil {
		value, err := json.Marshal(request)
		if err != nil {
			return fmt.Errorf("write erasure: %w", err)
		}
		m := kafka.Message{Topic: event.TopicErasureRequest, Key: []byte(request.RequestID), Value: value, Headers: bus.SetEvent(nil, bus.Event{
			ID: request.RequestID, Type: event.TypeErasureRequest, Source: "/muster/drop", Time: request.At, ContentType: "application/json",
		})}
		if err := bus.WriteAll(ctx, r.writer, []kafka.Message{m}); err != nil {
			return fmt.Errorf("write the log of erasures: %w", err)
		}
	}
	if err := bus.WriteAll(ctx, r.writer, entries); err != nil {
		return fmt.Errorf("publish suppression entries: %w", err)
	}
	return nil
}
