package answers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"muster/platform/bus"
	ch "muster/platform/clickhouse"
	"muster/projector/internal/rejected"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Consumer groups of the builders.
const (
	Group      = readmodel.AnswersGroup
	LargeGroup = "muster.projector.large-answers"
)

// Config configures the builders. All fields are required.
type Config struct {
	// Consumer has the brokers, the limits of a batch, the retries, the logger and the registerer of both consumers;
	// group, topics, age and handler are set here.
	Consumer bus.BatchConsumerConfig
	// Group and LargeGroup are the consumer groups.
	Group, LargeGroup string
	// LargeAge is the minimum interval between builds of the answer of an account with thousands of rows.
	LargeAge time.Duration
}

// Deps are the dependencies of the builders. All fields but Suppressed are required.
type Deps struct {
	Conn       driver.Conn
	Suppressed *suppress.Set // people without answers; nil: none
	Writer     *bus.Writer   // for touches of large accounts, and of built ones
	Rejected   *rejected.Publisher
	Logger     *slog.Logger
	Tracer     trace.Tracer
	Now        func() time.Time
}

// answerBuilder builds rows of answers from touches. It handles one batch at a time.
type answerBuilder struct {
	cfg   Config
	deps  Deps
	large bool

	last    map[int]int64     // offset after the last handled one, by partition
	checked bool              // whether the topic belongs to the newest generation
	newest  uint32            // that generation
	layout  *readmodel.Layout // of the tables, once read
}

// NewConsumer returns the consumer that builds answers.
func NewConsumer(cfg Config, deps Deps) (*bus.BatchConsumer, error) {
	c := cfg.Consumer
	c.Group, c.Topics, c.MaxAge = cfg.Group, []string{event.TopicAnswerTask}, maxTouchAge
	return newConsumer(c, cfg, deps, false)
}

// NewLargeConsumer returns the consumer that builds the answers of accounts with thousands of rows.
func NewLargeConsumer(cfg Config, deps Deps) (*bus.BatchConsumer, error) {
	c := cfg.Consumer
	c.Group, c.Topics, c.MaxAge = cfg.LargeGroup, []string{event.TopicLargeAnswerTask}, cfg.LargeAge
	return newConsumer(c, cfg, deps, true)
}

func newConsumer(c bus.BatchConsumerConfig, cfg Config, deps Deps, large bool) (*bus.BatchConsumer, error) {
	a := &answerBuilder{cfg: cfg, deps: deps, large: large, last: make(map[int]int64)}
	c.Handle = a.handle
	return bus.NewBatchConsumer(c)
}

func (a *answerBuilder) handle(ctx context.Context, b bus.Batch) (err error) {
	ctx, span := a.deps.Tracer.Start(ctx, "build answers", trace.WithSpanKind(trace.SpanKindConsumer))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "failed")
		}
		span.End()
	}()
	if a.layout == nil {
		layout, err := readmodel.FindLayout(ctx, a.deps.Conn)
		if err != nil {
			return err
		}
		a.layout = &layout
	}
	generation, err := a.generation(ctx, b)
	if err != nil {
		return err
	}
	accounts, linking, invalid := a.read(b, generation)
	if err := a.deps.Rejected.Publish(ctx, invalid); err != nil {
		return err
	}
	touched := slices.Sorted(maps.Keys(accounts))
	if err := a.build(ctx, accounts); err != nil {
		return err
	}
	if err := a.announce(ctx, touched, linking); err != nil {
		return err
	}
	a.recordHandled(b)
	return nil
}

// read decodes the touches of a batch and keeps the newest of each account. linking are accounts whose people are to be
// linked again.
func (a *answerBuilder) read(
	b bus.Batch, generation uint32,
) (accounts map[int64]*buildTarget, linking []int64, invalid []rejected.Message) {
	accounts = make(map[int64]*buildTarget, len(b.Messages))
	for i := range b.Messages {
		m := &b.Messages[i]
		var t event.AnswerTask
		err := json.Unmarshal(m.Value, &t)
		if err == nil {
			err = t.Validate()
		}
		if err != nil {
			invalid = append(invalid, rejected.Message{Message: m, Kind: "answer", Err: err})
			continue
		}
		if t.Kind != record.KindCodehostPerson || t.Built {
			continue // Others have no answer but their main row.
		}
		id, _ := t.Account() // validated
		if t.Linking {
			linking = append(linking, id)
			continue
		}
		target := &buildTarget{
			//nolint:gosec // Kafka's partitions are int32.
			Touch:      readmodel.Touch{UserID: id, Partition: int32(m.Partition), Offset: m.Offset},
			generation: generation, version: t.Version,
		}
		if a.large {
			target.generation, target.Offset = t.Generation, t.Offset
			target.Partition = int32(t.Partition) //nolint:gosec // as above
		}
		if before := accounts[id]; before != nil {
			target.version = max(target.version, before.version)
		}
		accounts[id] = target
	}
	return accounts, linking, invalid
}

// build builds the answers of accounts whose touch is newer than their row.
func (a *answerBuilder) build(ctx context.Context, accounts map[int64]*buildTarget) error {
	for id := range accounts {
		if _, erased := a.deps.Suppressed.ID(identity.Codehost, formatID(id)); erased {
			delete(accounts, id)
		}
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(accounts)), statesAtOnce) {
		if err := a.buildPart(ctx, part, accounts); err != nil {
			return err
		}
	}
	return nil
}

// announce touches accounts whose answers were built, if people are linked with them or may be.
func (a *answerBuilder) announce(ctx context.Context, built, linking []int64) error {
	announced := built // Large ones are few, and a touch with Linking overtakes their builds.
	if !a.large {
		linked, err := readmodel.LinkedAccounts(ctx, a.deps.Conn, built)
		if err != nil {
			return RedactError(err)
		}
		announced = slices.Concat(linking, linked)
		slices.Sort(announced)
		announced = slices.Compact(announced)
	}
	return publishTouches(ctx, a.deps.Writer, event.TopicAnswerTask,
		accountTasks(announced, event.AnswerTask{Built: true}))
}

func (a *answerBuilder) buildPart(ctx context.Context, part []int64, accounts map[int64]*buildTarget) error {
	states, err := readmodel.AnswerStates(ctx, a.deps.Conn, part)
	if err != nil {
		return RedactError(err)
	}
	var due, large []*buildTarget
	for _, id := range part {
		t, state := accounts[id], states[id]
		if state.Built(t.generation, t.Offset) && !t.replaces(state) {
			continue
		}
		if t.rows = state.Rows; t.rows > largeAccount {
			large = append(large, t)
		} else {
			due = append(due, t)
		}
	}
	if !a.large {
		if err := a.forwardLarge(ctx, large); err != nil {
			return err
		}
		large = nil
	}
	err = eachBuild(due, large, func(builds readmodel.Builds, touches []readmodel.Touch) error {
		return a.buildSome(ctx, builds, touches, accounts)
	})
	if err != nil {
		return RedactError(err)
	}
	return RedactError(a.dropErased(ctx, part)) // Also drops what a failed attempt built.
}

// replaces prepares a build over a row whose touch was in another partition, so that the offsets do not say which is
// newer: after the number of partitions has changed, writers use the previous one until they refresh their metadata. It
// reports whether the row is of such a touch.
func (t *buildTarget) replaces(row readmodel.AnswerState) bool {
	if row.Partition == t.Partition || row.Generation != t.generation {
		return false
	}
	t.Partition, t.Offset, t.Rebuilt = row.Partition, row.Touch, row.Rebuilt+1
	return true
}

// forwardLarge forwards the touches of large accounts to their builder.
func (a *answerBuilder) forwardLarge(ctx context.Context, large []*buildTarget) error {
	if len(large) == 0 {
		return nil
	}
	tasks := make([]event.AnswerTask, len(large))
	for i, t := range large {
		tasks[i] = event.AnswerTask{
			Kind: record.KindCodehostPerson, ID: formatID(t.UserID), Version: t.version,
			Generation: t.generation, Partition: int(t.Partition), Offset: t.Offset,
		}
	}
	return publishTouches(ctx, a.deps.Writer, event.TopicLargeAnswerTask, tasks)
}

// buildSome builds answers in one statement. On a cluster it repeats that while a replica lags behind.
func (a *answerBuilder) buildSome(
	ctx context.Context, builds readmodel.Builds, touches []readmodel.Touch, accounts map[int64]*buildTarget,
) error {
	tables, err := builtTables(ctx, a.deps.Conn, *a.layout)
	if err != nil {
		return err
	}
	ids := make([]int64, len(touches))
	for i, t := range touches {
		ids[i] = t.UserID
	}
	began := a.deps.Now()
	for {
		for _, table := range tables {
			builds.Table = table
			err := readmodel.BuildAnswers(ctx, a.deps.Conn, builds, touches)
			if code, _ := ch.CodeOf(err); code == proto.ErrUnknownTable && table != readmodel.AnswersTable {
				continue // Swapped or dropped in the meantime.
			}
			if err != nil {
				return err
			}
		}
		if a.layout.Cluster == "" {
			return nil
		}
		built, err := readmodel.BuiltAnswers(ctx, a.deps.Conn, ids)
		if err != nil {
			return err
		}
		if !lags(accounts, built) {
			return nil
		}
		if a.deps.Now().Sub(began) > laggingFor {
			a.deps.Logger.LogAttrs(ctx, slog.LevelWarn,
				"answers: built from older rows than the touched ones, next scan will rebuild them",
				slog.Int("accounts", len(touches)))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lagRetryInterval):
		}
		for i := range touches {
			touches[i].Rebuilt++
		}
	}
}

// lags reports whether an answer was built from older rows than the touched ones, because a replica lagged
// behind. Call it on clusters only: on a single node it would wait for rows that an erasure deleted.
func lags(accounts map[int64]*buildTarget, built map[int64]readmodel.BuiltAnswer) bool {
	for id, b := range built {
		if b.BaseVersion < accounts[id].version {
			return true
		}
	}
	return false
}

// dropErased deletes the answers of accounts that were erased while they were built.
func (a *answerBuilder) dropErased(ctx context.Context, accounts []int64) error {
	if a.deps.Suppressed.Len() == 0 {
		return nil
	}
	built, err := readmodel.BuiltAnswers(ctx, a.deps.Conn, accounts)
	if err != nil {
		return err
	}
	var erased []uint64
	for id, b := range built {
		if _, hit := a.deps.Suppressed.Subject(suppress.Subject{
			Platform: identity.Codehost, ID: formatID(id), Username: b.UsernameKey, Emails: b.EmailKeys,
		}); hit {
			erased = append(erased, b.AccountHash)
		}
	}
	if len(erased) == 0 {
		return nil
	}
	tables, err := builtTables(ctx, a.deps.Conn, *a.layout)
	if err != nil {
		return err
	}
	for _, table := range tables {
		if err := readmodel.DropAnswers(ctx, a.deps.Conn, *a.layout, table, erased); err != nil {
			return err
		}
	}
	return nil
}

// generation returns the generation of the topic of touches. It starts a new one if the topic has fewer
// messages, or another number of partitions, than the stored answers were built from: the topic was recreated
// or the tables were restored.
func (a *answerBuilder) generation(ctx context.Context, b bus.Batch) (uint32, error) {
	generation, partitions, err := readmodel.AnswersGeneration(ctx, a.deps.Conn)
	if err != nil || a.large {
		return generation, err
	}
	if generation < a.newest {
		return 0, errors.New("a ClickHouse replica lags behind and lacks the newest generation of answers")
	}
	for _, r := range b.Ranges {
		if last, known := a.last[r.Partition]; !known || r.First < last {
			a.checked = false
		}
	}
	if a.checked && generation > 0 {
		return generation, nil
	}
	ends, err := bus.EndOffsets(ctx, a.cfg.Consumer.Config, []string{event.TopicAnswerTask})
	if err != nil {
		return 0, fmt.Errorf("read the ends of the touches: %w", err)
	}
	newest, err := newestTouches(ctx, a.deps.Conn, generation)
	if err != nil {
		return 0, err
	}
	isNew := generation == 0 || partitions != uint32(len(ends)) //nolint:gosec // a number of partitions
	for _, e := range ends {
		if touch, built := newest[e.Partition]; built && touch >= e.End {
			isNew = true
		}
	}
	if isNew {
		generation++
		err := readmodel.BeginAnswers(ctx, a.deps.Conn, generation, uint32(len(ends))) //nolint:gosec // as above
		if err != nil {
			return 0, err
		}
		if generation > 1 {
			a.deps.Logger.LogAttrs(ctx, slog.LevelInfo,
				"answers: topic of touches was recreated, starting a new generation",
				slog.Uint64("generation", uint64(generation)))
		}
	}
	a.checked, a.newest = true, generation
	return generation, nil
}

func (a *answerBuilder) recordHandled(b bus.Batch) {
	for _, r := range b.Ranges {
		a.last[r.Partition] = r.Last + 1
	}
}

// newestTouches returns the greatest offsets for which answers of a generation were built, by partition.
func newestTouches(ctx context.Context, conn driver.Conn, generation uint32) (map[int]int64, error) {
	out := make(map[int]int64)
	query := fmt.Sprintf("SELECT partition, max(touch) FROM %s WHERE generation = %d GROUP BY partition",
		readmodel.AnswersTable, generation)
	err := ch.ReadRows(ctx, conn, query, func(rows driver.Rows) error {
		var partition int32
		var touch int64
		if err := rows.Scan(&partition, &touch); err != nil {
			return err
		}
		out[int(partition)] = touch
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the touches that answers were built for: %w", err)
	}
	return out, nil
}
