package erasure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// ImportOptions are the options of an import.
type ImportOptions struct {
	// By is the requester, for the log.
	By string
	// Exempt has the IDs of rows whose people may be retained by law. If found, they are not deleted, and the
	// response has [Exempted].
	Exempt map[string]bool
	// Urgent deletes stored data immediately, not within a day.
	Urgent bool
	// DryRun disables publishing.
	DryRun bool
	// Now returns the time of requests (default: time.Now).
	Now func() time.Time
}

// ImportResult is the result of an import.
type ImportResult struct {
	Lists []ListResult `json:"lists"`
	// Requests are the IDs of the requests that a response waits for.
	Requests []string `json:"requests,omitempty"`
}

// ListResult is the result of one list.
type ListResult struct {
	Name string `json:"list"`
	Rows int    `json:"rows"`
	// Known counts rows that were imported before. Statuses counts all rows but the withdrawn.
	Known     int                `json:"known"`
	Statuses  map[ListStatus]int `json:"statuses,omitempty"`
	Withdrawn int                `json:"withdrawn,omitempty"`
	// Kept counts withdrawn rows whose hash is in another request too.
	Kept int      `json:"kept,omitempty"`
	Bad  []BadRow `json:"bad,omitempty"`

	kind     string
	response []response
}

type response struct {
	id     string
	status ListStatus
}

// maxRequestRows is the maximum number of rows in a request of the log.
const maxRequestRows = record.MaxIdentifiers

// listItem is the state of a row in the erasure log.
type listItem struct {
	request, requestedAt, hash string
	typ                        suppress.Type
	status                     ListStatus
	released                   bool
}

// loggedLists is the state of work items and of other requests in the erasure log.
type loggedLists struct {
	items map[string]*listItem
	// asked counts the work items and other requests that are not withdrawn, by hash.
	asked map[string]int
	// versions are the versions that work items were published with, by hash.
	versions map[string][]string
}

// readListLog reads the erasure log.
func readListLog(ctx context.Context, cfg bus.Config) (*loggedLists, error) {
	l := &loggedLists{
		items:    make(map[string]*listItem),
		asked:    make(map[string]int),
		versions: make(map[string][]string),
	}
	seen := make(map[string]bool)
	err := bus.Scan(ctx, cfg, []string{event.TopicErasureRequest}, func(m kafka.Message) error {
		var e event.Erasure
		if err := json.Unmarshal(m.Value, &e); err != nil || e.Validate() != nil {
			return nil //nolint:nilerr // not an event of the log
		}
		switch e.Action {
		case event.ErasureRequested:
			if seen[e.RequestID] {
				return nil // a duplicate
			}
			seen[e.RequestID] = true
			for _, i := range e.Identifiers {
				if i.Ref != "" {
					l.items[i.Ref] = &listItem{e.RequestID, e.RequestedAt, i.Hash, suppress.Type(i.Type),
						ListStatus(i.Status), false}
					if ListStatus(i.Status) == Exempted {
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
		return nil, fmt.Errorf("read the erasure log: %w", err)
	}
	return l, nil
}

// ImportLists erases the people that the rows of lists match, and ends the suppression of withdrawn rows. It writes the
// matches to the erasure log before the suppression entries, and publishes entries that an earlier import lacks.
func ImportLists(ctx context.Context, src Source, suppressed *suppress.Set, lists []List,
	opts ImportOptions) (*ImportResult, error) {
	log, err := readListLog(ctx, src.Bus)
	if err != nil {
		return nil, fmt.Errorf("import deletion lists: %w", err)
	}
	matches, err := matchLists(ctx, src.Conn, lists)
	if err != nil {
		return nil, fmt.Errorf("import deletion lists: %w", err)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	run := &listImport{suppressed: suppressed, opts: opts, log: log, matches: matches, writer: bus.NewWriter(src.Bus),
		waits: make(map[string]bool)}
	out := new(ImportResult)
	for _, l := range lists {
		o, listErr := run.importList(ctx, l)
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

type listImport struct {
	suppressed *suppress.Set
	opts       ImportOptions
	log        *loggedLists
	matches    listMatches
	writer     *bus.Writer
	waits      map[string]bool
}

func (r *listImport) importList(ctx context.Context, l List) (ListResult, error) {
	o := ListResult{Name: l.Name, Rows: len(l.Rows), Bad: l.Bad, kind: l.Kind, Statuses: make(map[ListStatus]int)}
	do := r.importRows
	if l.Kind == Removed {
		do = r.withdrawRows
	}
	for rows := range slices.Chunk(l.Rows, maxRequestRows) {
		if err := do(ctx, l, rows, &o); err != nil {
			return o, fmt.Errorf("%s, from line %d: %w", l.Name, rows[0].Line, err)
		}
	}
	return o, nil
}

// importRows publishes a request for the new ones among rows.
func (r *listImport) importRows(ctx context.Context, l List, rows []ListRow, o *ListResult) error {
	request, at, err := r.newRequest(event.ErasureRequested,
		fmt.Sprintf("%s:%d-%d", l.Name, rows[0].Line, rows[len(rows)-1].Line))
	if err != nil {
		return err
	}
	request.Scope, request.Urgent = string(suppress.All), r.opts.Urgent
	var entries []kafka.Message
	for _, row := range rows {
		hash := r.suppressed.Key().Hash(row.Type, row.Sum)
		known := r.log.items[row.ID]
		if known != nil && known.hash != hash.String() {
			o.Bad = append(o.Bad, BadRow{row.Line, "ID had another identifier before"})
			continue
		}
		if known == nil {
			status := r.matches.status(row)
			if r.opts.Exempt[row.ID] && status != NotFound {
				status = Exempted
			}
			known = &listItem{request.RequestID, at, hash.String(), row.Type, status, false}
			r.log.items[row.ID] = known
			request.Identifiers = append(request.Identifiers,
				event.ErasureIdentifier{Type: string(row.Type), Hash: known.hash, Ref: row.ID, Status: int(status)})
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
		m, err := r.newEntry(hash, row, suppress.Entry{RequestedAt: known.requestedAt, RequestID: known.request})
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

// withdrawRows ends the suppression of withdrawn rows.
func (r *listImport) withdrawRows(ctx context.Context, l List, rows []ListRow, o *ListResult) error {
	request, at, err := r.newRequest(event.ErasureWithdrawn,
		fmt.Sprintf("%s:%d-%d", l.Name, rows[0].Line, rows[len(rows)-1].Line))
	if err != nil {
		return err
	}
	var entries []kafka.Message
	for _, row := range rows {
		hash := r.suppressed.Key().Hash(row.Type, row.Sum)
		known := r.log.items[row.ID]
		o.Withdrawn++
		if known == nil { // never imported
			continue
		}
		if known.hash != hash.String() {
			o.Bad = append(o.Bad, BadRow{row.Line, "ID had another identifier before"})
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
		ours, err := r.isFromList(hash, row.Type, known.hash)
		if err != nil {
			return err
		}
		if !ours {
			continue
		}
		m, err := r.newEntry(
			hash, row, suppress.Entry{RequestedAt: at, RequestID: request.RequestID, Unsuppressed: true},
		)
		if err != nil {
			return err
		}
		if m != nil {
			entries = append(entries, *m)
			request.Identifiers = append(request.Identifiers,
				event.ErasureIdentifier{Type: string(row.Type), Hash: known.hash})
		}
	}
	if len(request.Released) == 0 && len(entries) == 0 {
		request = nil
	}
	return r.publish(ctx, request, entries)
}

// isFromList reports whether the suppression entry of a hash is from a list.
func (r *listImport) isFromList(h suppress.Hash, t suppress.Type, hash string) (bool, error) {
	for _, at := range r.log.versions[hash] {
		e := suppress.Entry{Type: t, Scope: suppress.All, RequestedAt: at}
		order, err := r.suppressed.Compare(h, &e)
		if err != nil || order == 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// newRequest returns a new event of the log and its version.
func (r *listImport) newRequest(action event.ErasureAction, place string) (*event.Erasure, string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, "", fmt.Errorf("create a request ID: %w", err)
	}
	now := r.opts.Now().UTC()
	at := record.VersionOf(now).String()
	return &event.Erasure{
		RequestID: "er_" + id.String(), Action: action, At: now, RequestedAt: at, By: cmp.Or(r.opts.By, "operator"),
		Via: "drop", Place: place,
	}, at, nil
}

// newEntry returns the message of a row's suppression entry. It returns nil if the entry is in the set, or replaced by
// a newer one.
func (r *listImport) newEntry(h suppress.Hash, row ListRow, e suppress.Entry) (*kafka.Message, error) {
	set := r.suppressed
	e.Type, e.Scope, e.Key, e.Mark = row.Type, suppress.All, set.Key().ID(), set.Key().Mark(row.Type, row.Sum)
	if order, err := set.Compare(h, &e); err != nil || order <= 0 {
		return nil, err
	}
	value, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("write suppression entry: %w", err)
	}
	m := &kafka.Message{Topic: event.TopicErasure, Key: []byte(h.String()), Value: value,
		Headers: bus.SetEvent(nil, bus.Event{
			ID: e.RequestID + "/" + h.String(), Type: event.TypeSuppression, Source: "/muster/drop",
			Time: r.opts.Now().UTC(), ContentType: "application/json",
		})}
	if r.opts.DryRun {
		return m, nil
	}
	return m, set.Apply(m.Key, m.Value)
}

// publish writes to the log first: the next import publishes missing entries from it.
func (r *listImport) publish(ctx context.Context, request *event.Erasure, entries []kafka.Message) error {
	if r.opts.DryRun {
		return nil
	}
	if request != nil {
		value, err := json.Marshal(request)
		if err != nil {
			return fmt.Errorf("write erasure: %w", err)
		}
		m := kafka.Message{Topic: event.TopicErasureRequest, Key: []byte(request.RequestID), Value: value,
			Headers: bus.SetEvent(nil, bus.Event{
				ID: request.RequestID, Type: event.TypeErasureRequest, Source: "/muster/drop", Time: request.At,
				ContentType: "application/json",
			})}
		if err := bus.WriteAll(ctx, r.writer, []kafka.Message{m}); err != nil {
			return fmt.Errorf("write the erasure log: %w", err)
		}
	}
	if err := bus.WriteAll(ctx, r.writer, entries); err != nil {
		return fmt.Errorf("publish suppression entries: %w", err)
	}
	return nil
}
