package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"

	discovery "muster/discovery-worker"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/platform/opensearch"
	"muster/platform/service"
	"muster/projector"
	"muster/projector/searchsink"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	webhook "muster/webhook-sender"
)

// Source is what a status is read from.
type Source struct {
	// AdminURL is the admin address of the instance; empty if there is none.
	AdminURL string
	Kafka    bus.Config
	// Group is the projector's consumer group, and Topics are its topics.
	Group  string
	Topics []string
	// Others are consumer groups that maintain read models of other topics.
	Others []Consumer
	// Tasks are consumer groups that are shown, but not waited for: a delivery that is retried in an hour lags by an
	// hour, as intended.
	Tasks      []Consumer
	ClickHouse driver.Conn
	// Search is the cluster with the search index; nil: there is none.
	Search *opensearch.Client
}

// Consumer is a consumer group with its topics.
type Consumer = bus.GroupTopics

// EventConsumers returns the groups that maintain read models of muster's events, and those that build answers.
func EventConsumers() []Consumer {
	return append([]Consumer{
		{Group: projector.UsageGroup, Topics: []string{event.TopicUsage}},
		{Group: projector.WebhookGroup, Topics: []string{event.TopicWebhook}},
		{Group: projector.DiscoveryGroup, Topics: []string{event.TopicDiscovery}},
		{Group: projector.ContextGroup, Topics: []string{event.TopicContext}},
		{Group: projector.FeedbackGroup, Topics: []string{event.TopicFeedback}},
	}, AnswersConsumers()...)
}

// AnswersConsumers returns the groups that build answers and linked accounts, in processing order.
func AnswersConsumers() []Consumer {
	return []Consumer{
		{Group: projector.AnswersGroup, Topics: []string{event.TopicAnswerTask}},
		{Group: projector.LargeAnswersGroup, Topics: []string{event.TopicLargeAnswerTask}},
		{Group: projector.LinkedGroup, Topics: []string{event.TopicAnswerTask}},
	}
}

// SearchConsumers returns the group that writes the search index.
func SearchConsumers() []Consumer {
	return []Consumer{{Group: projector.SearchGroup, Topics: []string{event.TopicAnswerTask}}}
}

// TaskConsumers returns the groups that process tasks.
func TaskConsumers() []Consumer {
	return []Consumer{
		{Group: discovery.Group, Topics: []string{event.TopicDiscoveryTask}},
		{Group: discovery.ContextGroup, Topics: []string{event.TopicContextTask}},
		{Group: webhook.Group, Topics: []string{event.TopicWebhookTask}},
	}
}

// consumers returns all groups of the source.
func (s Source) consumers() []Consumer {
	out := append([]Consumer{{Group: s.Group, Topics: s.Topics}}, s.Others...)
	if s.Search != nil {
		out = append(out, SearchConsumers()...)
	}
	return out
}

// DamageHint is the hint for a damaged table.
const DamageHint = "restore a backup, or detach the part and run muster replay (operators.md, Damaged tables)"

// Status is the state of an instance at one time.
type Status struct {
	Services   []service.CheckResult `json:"services"`
	Topics     []TopicLag            `json:"topics"`
	ReadModels []ReadModel           `json:"read_models"`
	// Damage lists table parts that the server cannot read from its disk.
	Damage []clickhouse.Damage `json:"damage,omitempty"`
}

// TopicLag is the lag of a consumer group in a topic. Lag counts offsets, including those removed by compaction.
type TopicLag struct {
	Topic string `json:"topic"`
	Group string `json:"group"`
	End   int64  `json:"end_offset"`
	Lag   int64  `json:"lag"`
	// Behind is the age of the oldest message that the group has not processed, in seconds; 0 if there is none.
	Behind float64 `json:"behind_seconds"`
	// Lost is the number of offsets that retention removed before they were processed.
	Lost int64 `json:"lost"`
}

// ReadModel is the size of a table.
type ReadModel struct {
	Table string `json:"table"`
	// Records counts identities in their newest version, without deleted ones.
	Records uint64 `json:"records"`
	// Parts and Bytes are what is on disk, including old versions that are not merged yet.
	Parts uint64 `json:"parts"`
	Bytes uint64 `json:"bytes"`
	// Newest is the newest version among the records.
	Newest *time.Time `json:"newest,omitempty"`
}

// Read returns the current status.
func Read(ctx context.Context, src Source) (Status, error) {
	var st Status
	if src.AdminURL != "" {
		readiness, err := readiness(ctx, src.AdminURL)
		if err != nil {
			return st, err
		}
		st.Services = Services(readiness.Checks)
	}
	var err error
	if st.Topics, err = Topics(ctx, src.Kafka, append(src.consumers(), src.Tasks...), time.Now()); err != nil {
		return st, err
	}
	if err := addLost(ctx, src, st.Topics); err != nil {
		return st, err
	}
	st.ReadModels, err = ReadModels(ctx, src.ClickHouse)
	met, damaged := clickhouse.DamageOf(err)
	if err != nil && !damaged {
		return st, err
	}
	st.Damage, err = readDamage(ctx, src.ClickHouse)
	if damaged && len(st.Damage) == 0 { // this user has no access to the details
		st.Damage, err = []clickhouse.Damage{met}, nil
	}
	return st, err
}

// StartupCheck is the readiness check that fails until an instance has started, which includes loading the sample. It
// is no service: [Services] drops it once it passes.
const StartupCheck = "startup"

// Services returns the checks without a passed [StartupCheck].
func Services(checks []service.CheckResult) []service.CheckResult {
	return slices.DeleteFunc(slices.Clone(checks), func(c service.CheckResult) bool {
		return c.Name == StartupCheck && c.Ready
	})
}

// readDamage returns the damaged parts, or nothing if the user has no access to them.
func readDamage(ctx context.Context, conn driver.Conn) ([]clickhouse.Damage, error) {
	var database string
	if err := conn.QueryRow(ctx, "SELECT currentDatabase()").Scan(&database); err != nil {
		return nil, fmt.Errorf("read the name of the database: %w", err)
	}
	found, err := clickhouse.ReadDamage(ctx, conn, database)
	if code, ok := clickhouse.CodeOf(err); ok && code == proto.ErrAccessDenied {
		return nil, nil
	}
	return found, err
}

// ReadModels counts the rows of the tables. With an error, it returns those that could be counted.
func ReadModels(ctx context.Context, conn driver.Conn) ([]ReadModel, error) {
	counts, err := readmodel.Counts(ctx, conn)
	var out []ReadModel
	for _, c := range counts {
		rm := ReadModel{Table: c.Table, Records: c.Rows, Parts: c.Parts, Bytes: c.Bytes}
		if c.Rows > 0 {
			newest := record.Version(c.Current).Time()
			rm.Newest = &newest
		}
		out = append(out, rm)
	}
	return out, err
}

// Topics returns the lag of consumer groups, from Kafka.
func Topics(ctx context.Context, kafka bus.Config, consumers []Consumer, now time.Time) (out []TopicLag, err error) {
	lags, err := bus.Lags(ctx, kafka, consumers)
	if err != nil {
		return nil, fmt.Errorf("read the lag from Kafka: %w", err)
	}
	for i, partitions := range lags {
		oldest, err := bus.OldestTimestamps(ctx, kafka, partitions)
		if err != nil {
			return nil, fmt.Errorf("read the lag from Kafka: %w", err)
		}
		for _, t := range sumByTopic(partitions) {
			t.Group = consumers[i].Group
			if since, waits := oldest[t.Topic]; waits {
				t.Behind = max(0, now.Sub(since).Seconds())
			}
			out = append(out, t)
		}
	}
	return out, nil
}

// addLost adds the lost messages that the instance's consumers have counted.
func addLost(ctx context.Context, src Source, topics []TopicLag) error {
	if src.AdminURL == "" {
		return nil
	}
	lost, err := observeLost(ctx, src.AdminURL)
	if err != nil {
		return err
	}
	for i := range topics {
		topics[i].Lost += lost[consumed{topics[i].Group, topics[i].Topic}]
	}
	return nil
}

func sumByTopic(partitions []bus.PartitionLag) []TopicLag {
	var topics []TopicLag
	for _, p := range partitions {
		if len(topics) == 0 || topics[len(topics)-1].Topic != p.Topic {
			topics = append(topics, TopicLag{Topic: p.Topic})
		}
		last := &topics[len(topics)-1]
		last.End += p.End
		last.Lag += p.Lag
		last.Lost += p.Lost
	}
	return topics
}

func readiness(ctx context.Context, adminURL string) (service.Readiness, error) {
	var r service.Readiness
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, adminURL+"/readyz", nil)
	if err != nil {
		return r, fmt.Errorf("connect to the admin address: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return r, fmt.Errorf("connect to the admin address: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	// 503 has the same document, with the failing check.
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
		return r, fmt.Errorf("%s/readyz: status %s", adminURL, resp.Status)
	}
	if err := json.UnmarshalRead(io.LimitReader(resp.Body, 1<<20), &r); err != nil {
		return r, fmt.Errorf("read the response of %s/readyz: %w", adminURL, err)
	}
	return r, nil
}

// Wait waits until everything that was published to the topics before the call is visible in the read models: the
// committed offsets of the groups have reached the ends that the topics had at the call. If one of the groups reads the
// ledger, calls that were answered before are included. progress, if not nil, is called with the number of missing
// offsets.
func Wait(ctx context.Context, src Source, progress func(missing int64)) error {
	if err := src.flushUsage(ctx); err != nil {
		return err
	}
	if err := src.waitFor(ctx, src.consumers(), progress); err != nil {
		return err
	}
	// Projection writes to the answers topics, and large accounts are passed on: their ends are known only now.
	for _, c := range AnswersConsumers() {
		if slices.ContainsFunc(src.Others, func(o Consumer) bool { return o.Group == c.Group }) {
			if err := src.waitFor(ctx, []Consumer{c}, progress); err != nil {
				return err
			}
		}
	}
	if src.Search == nil {
		return nil
	}
	if err := src.waitFor(ctx, SearchConsumers(), progress); err != nil {
		return err
	}
	return searchsink.Refresh(ctx, src.Search)
}

// waitFor waits until consumers have reached the current ends of their topics.
func (s Source) waitFor(ctx context.Context, consumers []Consumer, progress func(missing int64)) error {
	goal, err := goalOf(ctx, s.Kafka, consumers)
	if err != nil {
		return err
	}
	// A poll costs the brokers a few requests, so the interval grows: short waits end at once, long ones within a
	// second.
	const longest = time.Second
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, longest) {
		missing, err := goal.missing(ctx, s.Kafka)
		if err != nil {
			return err
		}
		if progress != nil {
			progress(missing)
		}
		if missing == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("timed out with %d offsets not yet visible: %w", missing, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

// goal has the offsets that consumer groups must reach.
type goal struct {
	consumers []Consumer
	ends      map[partition]int64
}

type partition struct {
	topic string
	id    int
}

// goalOf returns the current ends of the consumers' topics.
func goalOf(ctx context.Context, kafka bus.Config, consumers []Consumer) (goal, error) {
	g := goal{consumers: consumers, ends: map[partition]int64{}}
	var topics []string
	for _, c := range consumers {
		topics = append(topics, c.Topics...)
	}
	ends, err := bus.EndOffsets(ctx, kafka, topics)
	if err != nil {
		return g, fmt.Errorf("read the topics' ends: %w", err)
	}
	for _, e := range ends {
		// An empty partition has nothing to wait for, whatever the committed offset.
		if e.End > e.First {
			g.ends[partition{e.Topic, e.Partition}] = e.End
		}
	}
	return g, nil
}

// missing returns the number of offsets that are not committed yet.
func (g goal) missing(ctx context.Context, kafka bus.Config) (n int64, err error) {
	lags, err := bus.Lags(ctx, kafka, g.consumers)
	if err != nil {
		return 0, fmt.Errorf("read the lag from Kafka: %w", err)
	}
	for _, l := range slices.Concat(lags...) {
		end, ok := g.ends[partition{l.Topic, l.Partition}]
		if ok && l.Next < end {
			n += end - l.Next
		}
	}
	return n, nil
}

// WriteText prints the status as text.
func (st Status) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { fmt.Fprintf(tw, format+"\n", args...) }
	if len(st.Services) > 0 {
		line("SERVICE\tSTATE")
		for _, s := range st.Services {
			state := "ready"
			if !s.Ready {
				state = "not ready: " + strings.ReplaceAll(s.Reason, "\n", "; ")
			}
			line("%s\t%s", s.Name, state)
		}
		line("")
	}
	line("TOPIC\tCONSUMER\tEND OFFSET\tLAG\tSECONDS BEHIND\tLOST")
	for _, t := range st.Topics {
		line("%s\t%s\t%d\t%d\t%.1f\t%d", t.Topic, strings.TrimPrefix(t.Group, "muster."), t.End, t.Lag,
			t.Behind, t.Lost)
	}
	line("")
	line("READ MODEL\tRECORDS\tPARTS\tMB\tNEWEST")
	for _, m := range st.ReadModels {
		newest := ""
		if m.Newest != nil {
			newest = m.Newest.UTC().Format(time.RFC3339)
		}
		line("%s\t%d\t%d\t%.1f\t%s", m.Table, m.Records, m.Parts, float64(m.Bytes)/1e6, newest)
	}
	if len(st.Damage) > 0 {
		line("")
		line("DAMAGED TABLE\tPART\tCAUSE")
		for _, d := range st.Damage {
			line("%s\t%s\t%s", d.Table, d.Part, d.Cause)
		}
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print the status: %w", err)
	}
	return nil
}

// Err returns an error if an operator must act: a service is not ready, records are lost, or a table is damaged.
func (st Status) Err() error {
	var errs []error
	for _, s := range st.Services {
		if !s.Ready {
			errs = append(errs, fmt.Errorf("%s is not ready: %s", s.Name, s.Reason))
		}
	}
	for _, d := range st.Damage {
		told := func(s service.CheckResult) bool { return strings.Contains(s.Reason, d.String()) }
		if !slices.ContainsFunc(st.Services, told) {
			errs = append(errs, fmt.Errorf("%s: %s", d, DamageHint))
		}
	}
	for _, t := range st.Topics {
		if t.Lost > 0 {
			errs = append(errs,
				fmt.Errorf(
					"retention removed %d messages of %s before they were projected: ingest them again, and "+
						"increase the retention of the topic", t.Lost, t.Topic))
		}
	}
	return errors.Join(errs...)
}
