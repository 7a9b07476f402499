package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// Topic describes a topic and its settings.
type Topic struct {
	Name        string
	Partitions  int
	Replication int // 0: the default of the brokers
	// Config holds topic settings by their Kafka names, for example cleanup.policy and retention.ms. max.message.bytes
	// defaults to MaxMessageBytes.
	Config map[string]string
}

func (t Topic) config() map[string]string {
	c := map[string]string{"max.message.bytes": strconv.Itoa(MaxMessageBytes)}
	maps.Copy(c, t.Config)
	return c
}

// validate applies Kafka's rule for names (up to 249 letters, digits, dots, underscores and hyphens), which the
// embedded broker does not enforce.
func (t Topic) validate() error {
	ok := t.Name != "" && len(t.Name) <= 249 && t.Name != "." && t.Name != ".."
	for _, c := range []byte(t.Name) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			ok = false
		}
	}
	if !ok {
		return fmt.Errorf("topic name %q: %w", t.Name, kafka.InvalidTopic)
	}
	if t.Partitions < 1 {
		return fmt.Errorf("topic %s: %d partitions: %w", t.Name, t.Partitions, kafka.InvalidPartitionNumber)
	}
	return nil
}

// Mismatch is a setting of an existing topic that differs from the wanted one.
type Mismatch struct{ Topic, Setting, Want, Got string }

// MismatchError reports existing topics with other settings than wanted. They are left unchanged: changing partitions
// moves keys, changing retention deletes data, and both are an operator's decision.
type MismatchError struct{ Mismatches []Mismatch }

func (e *MismatchError) Error() string {
	var b strings.Builder
	b.WriteString("kafka topics differ from the configuration:")
	for _, m := range e.Mismatches {
		fmt.Fprintf(&b, " %s: %s is %q, want %q;", m.Topic, m.Setting, m.Got, m.Want)
	}
	return strings.TrimSuffix(b.String(), ";")
}

// EnsureTopics creates missing topics and waits until they are writable. It compares the settings of existing topics;
// if partitions, replication or a named setting differ it returns a [*MismatchError], after it has created what was
// missing. It is safe to run in several processes.
func EnsureTopics(ctx context.Context, cfg Config, topics []Topic) error {
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("ensure topics: %w", err)
	}
	if len(topics) == 0 {
		return nil
	}
	for _, t := range topics {
		if err := t.validate(); err != nil {
			return fmt.Errorf("ensure topics: %w", err)
		}
	}
	tr := cfg.transport(topicNames(topics)...)
	defer tr.CloseIdleConnections()
	client := cfg.client(tr)
	if err := createMissing(ctx, cfg, client, topics); err != nil {
		return fmt.Errorf("ensure topics: %w", err)
	}
	meta, err := awaitTopics(ctx, cfg, topicNames(topics))
	if err != nil {
		return fmt.Errorf("ensure topics: %w", err)
	}
	mismatches, err := compareTopics(ctx, client, topics, meta)
	if err != nil {
		return fmt.Errorf("ensure topics: %w", err)
	}
	if len(mismatches) > 0 {
		return &MismatchError{Mismatches: mismatches}
	}
	return nil
}

// UnreplicatedTopics returns the named topics with a replication factor of 1 on a cluster of several brokers: if the
// broker loses its data, the topic's data is lost. It omits topics that do not exist.
func UnreplicatedTopics(ctx context.Context, cfg Config, names []string) ([]string, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("unreplicated topics: %w", err)
	}
	tr := cfg.transport(names...)
	defer tr.CloseIdleConnections()
	res, err := cfg.client(tr).Metadata(ctx, &kafka.MetadataRequest{Topics: names})
	if err != nil {
		return nil, fmt.Errorf("unreplicated topics: %w", err)
	}
	var out []string
	isSingle := func(p kafka.Partition) bool { return len(p.Replicas) == 1 }
	for _, t := range res.Topics {
		if len(res.Brokers) > 1 && slices.ContainsFunc(t.Partitions, isSingle) {
			out = append(out, t.Name)
		}
	}
	return out, nil
}

func topicNames(topics []Topic) []string {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.Name
	}
	return names
}

// createMissing creates the topics and retries until ctx ends. Topics that exist are no error.
func createMissing(ctx context.Context, cfg Config, client *kafka.Client, topics []Topic) error {
	wait := newBackoff(50*time.Millisecond, time.Second)
	reporter, began := newWaitReporter(cfg), time.Now()
	todo := slices.Clone(topics)
	last := errors.New("no response")
	for len(todo) > 0 {
		req := &kafka.CreateTopicsRequest{}
		for _, t := range todo {
			tc := kafka.TopicConfig{Topic: t.Name, NumPartitions: t.Partitions, ReplicationFactor: t.Replication}
			if t.Replication == 0 {
				tc.ReplicationFactor = -1
			}
			for _, k := range slices.Sorted(maps.Keys(t.config())) {
				tc.ConfigEntries = append(tc.ConfigEntries,
					kafka.ConfigEntry{ConfigName: k, ConfigValue: t.config()[k]})
			}
			req.Topics = append(req.Topics, tc)
		}
		res, err := client.CreateTopics(ctx, req)
		if err != nil && IsPermanentWriteError(err) {
			return fmt.Errorf("create: %w", err)
		}
		if err != nil && ctx.Err() == nil {
			last = err
			if _, err := fetchTopics(ctx, cfg, topicNames(todo)); err != nil && ctx.Err() == nil {
				last = err // more specific than the error of CreateTopics
			}
		}
		if err == nil {
			var retry []Topic
			for _, t := range todo {
				terr, answered := res.Errors[t.Name]
				var code kafka.Error
				switch {
				case !answered:
					retry = append(retry, t)
				case terr == nil || errors.Is(terr, kafka.TopicAlreadyExists):
				case errors.As(terr, &code) && code.Temporary():
					retry, last = append(retry, t), terr
				default:
					return fmt.Errorf("create topic %s: %w", t.Name, terr)
				}
			}
			todo = retry
		}
		if len(todo) > 0 {
			reporter.failed(ctx, began, last)
		}
		if len(todo) > 0 && !sleep(ctx, wait.NextBackOff()) {
			return fmt.Errorf("create topic %s: %w (last: %w)", todo[0].Name, context.Cause(ctx), last)
		}
	}
	return nil
}

// awaitTopics waits until every topic has a leader for each of its partitions.
func awaitTopics(ctx context.Context, cfg Config, names []string) (map[string]kafka.Topic, error) {
	return awaitTopicsWithReason(ctx, cfg, names, func(error) {})
}

// awaitTopicsWithReason is awaitTopics and calls report with the reason after each failed attempt.
func awaitTopicsWithReason(
	ctx context.Context, cfg Config, names []string, report func(error),
) (map[string]kafka.Topic, error) {
	wait := newBackoff(20*time.Millisecond, time.Second)
	reporter, began := newWaitReporter(cfg), time.Now()
	var last error
	for {
		// fetchTopics uses a new transport each time: transports cache metadata.
		meta, err := fetchTopics(ctx, cfg, names)
		if err == nil {
			if err = checkUsable(meta, names); err == nil {
				return meta, nil
			}
		}
		if ctx.Err() == nil || last == nil { // an error of ctx hides the cause
			last = err
		}
		report(last)
		reporter.failed(ctx, began, last)
		if !sleep(ctx, wait.NextBackOff()) {
			return nil, fmt.Errorf("await topics: %w (last: %w)", context.Cause(ctx), last)
		}
	}
}

// checkUsable returns an error for the first topic that is missing or has no leader yet.
func checkUsable(meta map[string]kafka.Topic, names []string) error {
	noLeader := func(p kafka.Partition) bool { return p.Error != nil || p.Leader.Host == "" }
	for _, n := range names {
		t, ok := meta[n]
		if !ok {
			return fmt.Errorf(
				"topic %s does not exist (`muster migrate` creates it): %w",
				n,
				kafka.UnknownTopicOrPartition,
			)
		}
		if len(t.Partitions) == 0 || slices.ContainsFunc(t.Partitions, noLeader) {
			return fmt.Errorf("topic %s has no leader yet: %w", n, kafka.LeaderNotAvailable)
		}
	}
	return nil
}

// A wait for the brokers is logged after firstWaitWarning and then every waitWarningInterval. Commands time out before
// that and print the cause themselves; services wait for minutes.
const (
	firstWaitWarning    = 20 * time.Second
	waitWarningInterval = time.Minute
)

// waitReporter logs why brokers or topics are unavailable. It is safe for concurrent use. A nil waitReporter logs
// nothing.
type waitReporter struct {
	logger *slog.Logger
	mu     sync.Mutex
	since  time.Time // start of the first unfinished wait; zero: none
	next   time.Time
}

func newWaitReporter(cfg Config) *waitReporter { return &waitReporter{logger: cfg.logger()} }

// succeeded ends all waits.
func (w *waitReporter) succeeded() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Time{}
}

// failed records a failed attempt of a wait that began at a time, and logs a warning if one is due.
func (w *waitReporter) failed(ctx context.Context, began time.Time, err error) {
	if w == nil {
		return
	}
	w.mu.Lock()
	if w.since.IsZero() || began.Before(w.since) {
		w.since = began
	}
	now := time.Now()
	early := now.Before(w.since.Add(firstWaitWarning)) || now.Before(w.next)
	if !early {
		w.next = now.Add(waitWarningInterval)
	}
	w.mu.Unlock()
	if early {
		return
	}
	w.logger.LogAttrs(ctx, slog.LevelWarn, "still waiting for Kafka or its topics", slog.Any("error", err))
}

// fetchTopics returns uncached metadata of the named topics. It omits missing topics.
func fetchTopics(ctx context.Context, cfg Config, names []string) (map[string]kafka.Topic, error) {
	tr := cfg.transport(names...)
	defer tr.CloseIdleConnections()
	res, err := cfg.client(tr).Metadata(ctx, &kafka.MetadataRequest{Topics: names})
	if err != nil {
		return nil, fmt.Errorf("read topic metadata: %w", err)
	}
	out := make(map[string]kafka.Topic, len(res.Topics))
	for _, t := range res.Topics {
		if errors.Is(t.Error, kafka.UnknownTopicOrPartition) {
			continue
		}
		if t.Error != nil {
			return nil, fmt.Errorf("read metadata of topic %s: %w", t.Name, t.Error)
		}
		out[t.Name] = t
	}
	return out, nil
}

func compareTopics(
	ctx context.Context, client *kafka.Client, topics []Topic, meta map[string]kafka.Topic,
) ([]Mismatch, error) {
	var out []Mismatch
	req := &kafka.DescribeConfigsRequest{}
	wants := make(map[string]map[string]string, len(topics))
	for _, t := range topics {
		m := meta[t.Name]
		if got := len(m.Partitions); got != t.Partitions {
			out = append(out, Mismatch{t.Name, "partitions", strconv.Itoa(t.Partitions), strconv.Itoa(got)})
		}
		if t.Replication > 0 && len(m.Partitions) > 0 {
			if got := len(m.Partitions[0].Replicas); got != t.Replication {
				out = append(out, Mismatch{t.Name, "replication", strconv.Itoa(t.Replication), strconv.Itoa(got)})
			}
		}
		wants[t.Name] = t.config()
		req.Resources = append(req.Resources, kafka.DescribeConfigRequestResource{
			ResourceType: kafka.ResourceTypeTopic,
			ResourceName: t.Name,
			ConfigNames:  slices.Sorted(maps.Keys(wants[t.Name])),
		})
	}
	res, err := client.DescribeConfigs(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("describe topics: %w", err)
	}
	for _, r := range res.Resources {
		if r.Error != nil {
			return nil, fmt.Errorf("describe topic %s: %w", r.ResourceName, r.Error)
		}
		got := make(map[string]string, len(r.ConfigEntries))
		for _, e := range r.ConfigEntries {
			got[e.ConfigName] = e.ConfigValue
		}
		for _, k := range slices.Sorted(maps.Keys(wants[r.ResourceName])) {
			if want := wants[r.ResourceName][k]; !sameSetting(want, got[k]) {
				out = append(out, Mismatch{r.ResourceName, k, want, got[k]})
			}
		}
	}
	return out, nil
}

// sameSetting compares settings; the order of lists (compact,delete) does not matter.
func sameSetting(a, b string) bool {
	norm := func(s string) []string {
		parts := strings.Split(s, ",")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		slices.Sort(parts)
		return parts
	}
	return slices.Equal(norm(a), norm(b))
}
