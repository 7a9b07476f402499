package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"muster/platform/bus"
	ch "muster/platform/clickhouse"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Consumer groups of the answer builders.
const (
	AnswersGroup      = "muster.projector.answers"
	LargeAnswersGroup = "muster.projector.large-answers"
)

const (
	// largeAccount is the row count above which an account is built separately: at most once per
	// Config.LargeAge.
	largeAccount = 5000
	// answersAge is how long touches are batched. Small builds are dominated by fixed cost.
	answersAge = 100 * time.Millisecond
	// buildRows and buildAccounts bound one statement, and so the engine's memory for it.
	buildRows, buildAccounts = 100_000, 2000
	// laggingFor is how long a build is retried that read older rows than the touched ones.
	laggingFor = time.Minute
)

// touched maps accounts whose rows a batch changed to the newest version of those rows.
type touched map[int64]int64

// touch publishes touches of accounts whose rows a batch changed.
func (p *Projector) touch(ctx context.Context, accounts touched) error {
	if p.writer == nil || len(accounts) == 0 {
		return nil
	}
	tasks := make([]event.AnswerTask, 0, len(accounts))
	for _, id := range slices.Sorted(maps.Keys(accounts)) {
		tasks = append(tasks, event.AnswerTask{Kind: record.KindCodehostPerson, ID: itoa(id), Version: accounts[id]})
	}
	if err := publishTouches(ctx, p.writer, event.TopicAnswerTask, tasks); err != nil {
		return err
	}
	return nil
}

// publishTouches publishes touches durably.
func publishTouches(ctx context.Context, w *bus.Writer, topic string, tasks []event.AnswerTask) error {
	messages := make([]kafka.Message, 0, len(tasks))
	now := time.Now().UTC()
	for _, t := range tasks {
		value, err := json.Marshal(t)
		if err != nil {
			return fmt.Errorf("encode touch: %w", err)
		}
		messages = append(messages, kafka.Message{
			Topic: topic, Key: []byte(t.MessageKey()), Value: value,
			Headers: bus.SetEvent(nil, bus.Event{
				ID: t.MessageKey(), Type: event.TypeAnswerTask, Source: "/muster/projector", Time: now,
				ContentType: "application/json",
			}),
		})
	}
	if err := bus.WriteAll(ctx, w, messages); err != nil {
		return fmt.Errorf("publish touches: %w", err)
	}
	return nil
}

// answers builds rows of answers from touches. It handles one batch at a time.
type answers struct {
	p     *Projector
	large bool

	last    map[int]int64     // offset after the last handled one, by partition
	checked bool              // whether the topic belongs to the newest generation
	newest  uint32            // that generation
	layout  *readmodel.Layout // of the tables, once read
}

// newAnswersConsumer returns the consumer that builds answers, or the one for large accounts.
func (p *Projector) newAnswersConsumer(large bool) (*bus.BatchConsumer, error) {
	a := &answers{p: p, large: large, last: make(map[int]int64)}
	topic, age := event.TopicAnswerTask, answersAge
	if large {
		topic, age = event.TopicLargeAnswerTask, p.cfg.LargeAge
	}
	return bus.NewBatchConsumer(bus.BatchConsumerConfig{
		Config: p.cfg.Kafka, Group: p.answersGroup(large), Topics: []string{topic},
		MaxMessages: p.cfg.MaxMessages, MaxBytes: p.cfg.MaxBytes, MaxAge: age,
		Handle: a.handle, RetryMin: p.cfg.RetryMin, RetryMax: p.cfg.RetryMax,
		Timing: p.cfg.Timing, Logger: p.deps.Logger, Registerer: p.deps.Registerer,
	})
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// answersGroup is the consumer group of the answer builder. A projector with its own group writes to its own database.
func (p *Projector) answersGroup(large bool) string {
	switch own := p.cfg.Group != Group; {
	case own && large:
		return p.cfg.Group + ".large-answers"
	case own:
		return p.cfg.Group + ".answers"
	case large:
		return LargeAnswersGroup
	}
	return AnswersGroup
}

// buildTarget is an account to be built.
type buildTarget struct {
	readmodel.Touch
	generation uint32
	version    int64 // newest touched version
	rows       uint64
}

func (a *answers) handle(ctx context.Context, b bus.Batch) (err error) {
	ctx, span := a.p.tracer.Start(ctx, "build answers", trace.WithSpanKind(trace.SpanKindConsumer))
	defer func() {
		if err != nil {
			span.SetStatus(codes.Error, "failed")
		}
		span.End()
	}()
	if a.layout == nil {
		layout, err := readmodel.FindLayout(ctx, a.p.deps.Conn)
		if err != nil {
			return err
		}
		a.layout = &layout
	}
	generation, err := a.generation(ctx, b)
	if err != nil {
		return err
	}
	accounts, rejected := a.read(b, generation)
	if err := a.p.reject(ctx, rejected); err != nil {
		return err
	}
	if err := a.build(ctx, accounts); err != nil {
		return err
	}
	a.recordHandled(b)
	return nil
}

// read decodes the touches of a batch and keeps the newest of each account.
func (a *answers) read(b bus.Batch, generation uint32) (map[int64]*buildTarget, []rejection) {
	accounts := make(map[int64]*buildTarget, len(b.Messages))
	var rejected []rejection
	for i := range b.Messages {
		m := &b.Messages[i]
		var t event.AnswerTask
		err := json.Unmarshal(m.Value, &t)
		if err == nil {
			err = t.Validate()
		}
		if err != nil {
			rejected = append(rejected, rejection{m, "answer", err})
			continue
		}
		id, _ := t.Account() // validated
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
	return accounts, rejected
}

// build builds the answers of accounts whose touch is newer than their row.
func (a *answers) build(ctx context.Context, accounts map[int64]*buildTarget) error {
	for id := range accounts {
		if _, erased := a.p.deps.Suppressed.ID(identity.Codehost, itoa(id)); erased {
			delete(accounts, id)
		}
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(accounts)), 10*buildAccounts) {
		if err := a.buildPart(ctx, part, accounts); err != nil {
			return err
		}
	}
	return nil
}

func (a *answers) buildPart(ctx context.Context, part []int64, accounts map[int64]*buildTarget) error {
	states, err := readmodel.AnswerStates(ctx, a.p.deps.Conn, part)
	if err != nil {
		return redactedError(err)
	}
	var due, large []*buildTarget
	for _, id := range part {
		t, state := accounts[id], states[id]
		if state.Built(t.generation, t.Offset) {
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
		return redactedError(err)
	}
	return redactedError(a.dropErased(ctx, part)) // Also drops what a failed attempt built.
}

// redactedError returns err without the statement that store errors may quote, because it contains ids.
func redactedError(err error) error {
	if code, ok := ch.CodeOf(err); ok {
		return errors.New("build answers: store error " + code.String())
	}
	return err
}

// forwardLarge forwards the touches of large accounts to their builder.
func (a *answers) forwardLarge(ctx context.Context, large []*buildTarget) error {
	if len(large) == 0 {
		return nil
	}
	tasks := make([]event.AnswerTask, len(large))
	for i, t := range large {
		tasks[i] = event.AnswerTask{
			Kind: record.KindCodehostPerson, ID: itoa(t.UserID), Version: t.version,
			Generation: t.generation, Partition: int(t.Partition), Offset: t.Offset,
		}
	}
	return publishTouches(ctx, a.p.writer, event.TopicLargeAnswerTask, tasks)
}

// eachBuild calls build with groups of small accounts, and with each large account alone.
func eachBuild(due, large []*buildTarget, build func(readmodel.Builds, []readmodel.Touch) error) error {
	next := func(list []*buildTarget, n int, large bool) error {
		touches := make([]readmodel.Touch, n)
		for i, t := range list[:n] {
			touches[i] = t.Touch
		}
		return build(readmodel.Builds{Generation: list[0].generation, Large: large}, touches)
	}
	for len(due) > 0 {
		n, rows := 0, uint64(0)
		for n < len(due) && n < buildAccounts && due[n].generation == due[0].generation &&
			(n == 0 || rows+due[n].rows <= buildRows) {
			rows += due[n].rows
			n++
		}
		if err := next(due, n, false); err != nil {
			return err
		}
		due = due[n:]
	}
	for i := range large {
		if err := next(large[i:], 1, true); err != nil {
			return err
		}
	}
	return nil
}

// buildSome builds answers in one statement. On a cluster it repeats that while a replica lags behind.
func (a *answers) buildSome(
	ctx context.Context, builds readmodel.Builds, touches []readmodel.Touch, accounts map[int64]*buildTarget,
) error {
	shadows, err := fillingAnswers(ctx, a.p.deps.Conn, *a.layout)
	if err != nil {
		return err
	}
	ids := make([]int64, len(touches))
	for i, t := range touches {
		ids[i] = t.UserID
	}
	began := a.p.deps.Now()
	for {
		for _, table := range append(shadows, readmodel.AnswersTable) {
			builds.Table = table
			err := readmodel.BuildAnswers(ctx, a.p.deps.Conn, builds, touches)
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
		built, err := readmodel.BuiltAnswers(ctx, a.p.deps.Conn, ids)
		if err != nil {
			return err
		}
		if !lags(accounts, built) {
			return nil
		}
		if a.p.deps.Now().Sub(began) > laggingFor {
			a.p.deps.Logger.LogAttrs(ctx, slog.LevelWarn,
				"answers: built from older rows than the touched ones, next scan will rebuild them",
				slog.Int("accounts", len(touches)))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
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
func (a *answers) dropErased(ctx context.Context, accounts []int64) error {
	if a.p.deps.Suppressed.Len() == 0 {
		return nil
	}
	built, err := readmodel.BuiltAnswers(ctx, a.p.deps.Conn, accounts)
	if err != nil {
		return err
	}
	var erased []uint64
	for id, b := range built {
		if _, hit := a.p.deps.Suppressed.Subject(suppress.Subject{
			Platform: identity.Codehost, ID: itoa(id), Username: b.UsernameKey, Emails: b.EmailKeys,
		}); hit {
			erased = append(erased, b.AccountHash)
		}
	}
	if len(erased) == 0 {
		return nil
	}
	shadows, err := fillingAnswers(ctx, a.p.deps.Conn, *a.layout)
	if err != nil {
		return err
	}
	for _, table := range append(shadows, readmodel.AnswersTable) {
		if err := readmodel.DropAnswers(ctx, a.p.deps.Conn, *a.layout, table, erased); err != nil {
			return err
		}
	}
	return nil
}

// generation returns the generation of the topic of touches. It starts a new one if the topic has fewer
// messages, or another number of partitions, than the stored answers were built from: the topic was recreated
// or the tables were restored.
func (a *answers) generation(ctx context.Context, b bus.Batch) (uint32, error) {
	generation, partitions, err := readmodel.AnswersGeneration(ctx, a.p.deps.Conn)
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
	ends, err := bus.EndOffsets(ctx, a.p.cfg.Kafka, []string{event.TopicAnswerTask})
	if err != nil {
		return 0, fmt.Errorf("read the ends of the touches: %w", err)
	}
	newest, err := newestTouches(ctx, a.p.deps.Conn, generation)
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
		if err := readmodel.BeginAnswers(ctx, a.p.deps.Conn, generation, uint32(len(ends))); err != nil { //nolint:gosec // as above
			return 0, err
		}
		if generation > 1 {
			a.p.deps.Logger.LogAttrs(ctx, slog.LevelInfo,
				"answers: topic of touches was recreated, starting a new generation",
				slog.Uint64("generation", uint64(generation)))
		}
	}
	a.checked, a.newest = true, generation
	return generation, nil
}

func (a *answers) recordHandled(b bus.Batch) {
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
