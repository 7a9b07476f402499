package linked

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"muster/platform/bus"
	ch "muster/platform/clickhouse"
	"muster/projector/answers"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// Group is the consumer group.
const Group = readmodel.LinkedGroup

const (
	// maxTouchAge is how long touches are batched. A batch takes some ten statements, whatever its size.
	maxTouchAge = 500 * time.Millisecond
	// touchesAtOnce is the number of touches that are published together.
	touchesAtOnce = 10_000
	// rest and maxRest leave the processor to what callers read during a crawl. The linked accounts in searches may be
	// later than that.
	rest    = 4
	maxRest = 10 * time.Second
	// laggingFor is how long people are read again whose rows are older than their touches, on a cluster.
	laggingFor = time.Minute
	// lagRetryInterval is the interval of these attempts.
	lagRetryInterval = time.Second
	// scanEvery is the interval of Watch.
	scanEvery = time.Hour
)

// Config configures a consumer. Consumer and Group are required.
type Config struct {
	// Consumer has the brokers, the limits of a batch, the retries, the logger and the registerer; group, topic, age
	// and handler are set here.
	Consumer bus.BatchConsumerConfig
	Group    string
	// TouchDocuments publishes a touch of each person whose linked account was written, for the search index.
	TouchDocuments bool
}

// Deps are the dependencies of a consumer. All fields are required.
type Deps struct {
	Refresher Refresher
	Writer    *bus.Writer
	Logger    *slog.Logger
	Tracer    trace.Tracer
}

type consumer struct {
	cfg    Config
	deps   Deps
	layout *readmodel.Layout // of the tables, once read
}

// announcing returns the dependencies with a Refresher that announces changes, if documents are to be touched.
func (d Deps) announcing(cfg Config) Deps {
	if w := d.Writer; cfg.TouchDocuments {
		d.Refresher.Announce = func(ctx context.Context, people []string) error { return Announce(ctx, w, people) }
	}
	return d
}

// NewConsumer returns the consumer that refreshes touched people.
func NewConsumer(cfg Config, deps Deps) (*bus.BatchConsumer, error) {
	x := &consumer{cfg: cfg, deps: deps.announcing(cfg)}
	c := cfg.Consumer
	c.Group, c.Topics, c.MaxAge, c.Handle = cfg.Group, []string{event.TopicAnswerTask}, maxTouchAge, x.handle
	c.Rest, c.MaxRest = rest, maxRest
	return bus.NewBatchConsumer(c)
}

func (x *consumer) handle(ctx context.Context, b bus.Batch) (err error) {
	ctx, span := x.deps.Tracer.Start(ctx, "refresh linked accounts", trace.WithSpanKind(trace.SpanKindConsumer))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "failed")
		}
		span.End()
	}()
	t := read(b)
	others, err := affected(ctx, x.deps.Refresher.Conn, t.accounts, t.usernames)
	if err != nil {
		return redact(err)
	}
	if err := Touch(ctx, x.deps.Writer, event.AnswerTask{}, others); err != nil {
		return err
	}
	if err := x.waitForReplica(ctx, t.people); err != nil {
		return redact(err)
	}
	if _, err := x.deps.Refresher.Refresh(ctx, slices.Sorted(maps.Keys(t.people))); err != nil {
		return redact(err)
	}
	if !x.cfg.TouchDocuments {
		return nil
	}
	return Touch(ctx, x.deps.Writer, event.AnswerTask{IndexOnly: true}, t.announced)
}

// touched is what the touches of a batch concern.
type touched struct {
	people    map[string]int64 // with the newest version of their touches
	announced []string         // those of them whose account was about to be written, maybe repeated
	accounts  []int64          // whose answers were built
	usernames map[string]bool  // of the network, of account-links
}

// read returns what touches concern. Invalid touches are published by the builder of answers.
func read(b bus.Batch) touched {
	out := touched{people: make(map[string]int64), usernames: make(map[string]bool)}
	built := make(map[int64]bool)
	for i := range b.Messages {
		var t event.AnswerTask
		if json.Unmarshal(b.Messages[i].Value, &t) != nil || t.Validate() != nil || t.IndexOnly {
			continue
		}
		switch {
		case t.Kind == record.KindNetworkPerson:
			out.people[t.ID] = max(out.people[t.ID], t.Version)
			if t.Linking {
				out.announced = append(out.announced, t.ID)
			}
		case t.Kind == record.KindAccountLink:
			out.usernames[t.ID] = true
		case t.Built:
			id, _ := t.Account() // validated
			built[id] = true
		}
	}
	out.accounts = slices.Sorted(maps.Keys(built))
	return out
}

// waitForReplica waits, on a cluster, until the rows of people are as new as their touches.
func (x *consumer) waitForReplica(ctx context.Context, people map[string]int64) error {
	conn := x.deps.Refresher.Conn
	if x.layout == nil {
		layout, err := readmodel.FindLayout(ctx, conn)
		if err != nil {
			return err
		}
		x.layout = &layout
	}
	if x.layout.Cluster == "" {
		return nil
	}
	end := x.deps.Refresher.Now().Add(laggingFor)
	for part := range slices.Chunk(slices.Sorted(maps.Keys(people)), peopleAtOnce) {
		for {
			rows, err := readmodel.ReadLinkingPeople(ctx, conn, part)
			if err != nil {
				return err
			}
			lags := slices.ContainsFunc(part, func(id string) bool { return rows[id].Version < people[id] })
			if !lags || x.deps.Refresher.Now().After(end) { // Such as rows that an erasure deleted.
				break
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(lagRetryInterval):
			}
		}
	}
	return nil
}

// Touch requests refreshes of people, and their documents in the search index, with the marks of a touch.
func Touch(ctx context.Context, w *bus.Writer, like event.AnswerTask, people []string) error {
	like.Kind = record.KindNetworkPerson
	for part := range slices.Chunk(people, touchesAtOnce) {
		versions := make(map[string]int64, len(part))
		for _, id := range part {
			versions[id] = 0
		}
		if err := answers.TouchDocuments(ctx, w, like, versions); err != nil {
			return err
		}
	}
	return nil
}

// Announce lets a consumer touch the documents of people whose rows are about to change, once they have: it reads the
// people again when it handles the announcement. A touch that the writer publishes afterwards is lost if that is killed
// in between, since the repeated refresh finds nothing to change.
func Announce(ctx context.Context, w *bus.Writer, people []string) error {
	return Touch(ctx, w, event.AnswerTask{Linking: true}, people)
}

// affected returns the people who are linked with accounts, those who may be after the accounts have changed, and those
// who have or had network usernames.
func affected(
	ctx context.Context, conn driver.Conn, accounts []int64, usernames map[string]bool,
) (people []string, err error) {
	if people, err = readmodel.LinkedWith(ctx, conn, accounts); err != nil {
		return nil, err
	}
	records, err := readmodel.ReadLinkingAccounts(ctx, conn, accounts)
	if err != nil {
		return nil, err
	}
	own := make(map[string]bool)
	for _, a := range records {
		if a.UsernameKey != "" {
			own[a.UsernameKey] = true
		}
		for _, name := range a.Declares[:min(len(a.Declares), maxDeclared)] {
			usernames[name] = true
		}
	}
	found, err := readmodel.Candidates(ctx, conn, readmodel.LookupCodehostUsername, sorted(own))
	if err != nil {
		return nil, err
	}
	for _, rows := range found {
		for _, row := range rows {
			if name, ok := linkTo(row, identity.Network); ok {
				usernames[name] = true
			} else if row.Type == string(readmodel.LookupNetworkCodehostUsername) {
				people = append(people, row.Target)
			}
		}
	}
	holders, err := readmodel.Candidates(ctx, conn, readmodel.LookupNetworkUsername, sorted(usernames))
	if err != nil {
		return nil, err
	}
	for _, rows := range holders {
		for _, row := range rows {
			if row.Type == string(readmodel.LookupNetworkUsername) {
				people = append(people, row.Target)
			}
		}
	}
	return people, nil
}

// Watch refreshes everyone every hour on a cluster, until ctx ends. Errors are logged.
func Watch(ctx context.Context, cfg Config, deps Deps) {
	deps = deps.announcing(cfg)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(scanEvery):
		}
		layout, err := readmodel.FindLayout(ctx, deps.Refresher.Conn)
		if err == nil && layout.Cluster == "" {
			return
		}
		if err == nil {
			err = deps.Refresher.RefreshAll(ctx, nil)
		}
		if err != nil && ctx.Err() == nil {
			deps.Logger.LogAttrs(ctx, slog.LevelWarn, "linked accounts: refresh failed, will retry",
				slog.Any("error", redact(err)))
		}
	}
}

// redact returns err without the statement that store errors may quote, because it contains ids.
func redact(err error) error {
	if code, ok := ch.CodeOf(err); ok {
		return errors.New("linked accounts: store error " + code.String())
	}
	return err
}
