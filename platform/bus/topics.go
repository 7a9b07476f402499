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

// Topic is what a topic should be.
type Topic struct {
	Name        string
	Partitions  int
	Replication int // 0: what the brokers have as default
	// Config holds topic settings by their Kafka names, for example
	// cleanup.policy and retention.ms. max.message.bytes defaults to MaxMessageBytes.
	Config map[string]string
}

func (t Topic) config() map[string]string {
	c := map[string]string{"max.message.bytes": strconv.Itoa(MaxMessageBytes)}
	maps.Copy(c, t.Config)
	return c
}

// validate holds the name to Kafka's rule (at most 249 of letters, digits, dot,
// underscore and hyphen), which the embedded broker does not know.
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

// Mismatch is one setting of an existing topic that is not as wanted.
type Mismatch struct{ Topic, Setting, Want, Got string }

// MismatchError says that topics exist with other settings than wanted. They
// were left as they are: changing partitions moves keys, changing retention
// deletes data, and both are an operator's decision.
type MismatchError struct{ Mismatches []Mismatch }

func (e *MismatchError) Error() string {
	var b strings.Builder
	b.WriteString("kafka topics differ from what is wanted:")
	for _, m := range e.Mismatches {
		fmt.Fprintf(&b, " %s: %s is %q, want %q;", m.Topic, m.Setting, m.Got, m.Want)
	}
	return strings.TrimSuffix(b.String(), ";")
}

// EnsureTopics creates the topics that are missing and waits until they can be
// written to. Topics that exist are compared: differences of partitions,
// replication or a named setting come back as a [*MismatchError], after
// everything missing was created. It is safe to run from several processes.
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

// SingleCopies returns those of the named topics that are on one broker each, although
// there are several: what that broker loses is lost. Topics that do not exist are left out.
func SingleCopies(ctx context.Context, cfg Config, names []string) ([]string, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("topics of one copy: %w", err)
	}
	tr := cfg.transport(names...)
	defer tr.CloseIdleConnections()
	res, err := cfg.client(tr).Metadata(ctx, &kafka.MetadataRequest{Topics: names})
	if err != nil {
		return nil, fmt.Errorf("topics of one copy: %w", err)
	}
	var out []string
	for _, t := range res.Topics {
		if len(res.Brokers) > 1 && slices.ContainsFunc(t.Partitions, func(p kafka.Partition) bool { return len(p.Replicas) == 1 }) {
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

// createMissing asks for all topics at once: the brokers say which exist.
func createMissing(ctx context.Context, cfg Config, client *kafka.Client, topics []Topic) error {
	wait := newBackoff(50*time.Millisecond, time.Second)
	told, began := newWaiting(cfg), time.Now()
	todo := slices.Clone(topics)
	last := errors.New("no answer")
	for len(todo) > 0 {
		req := &kafka.CreateTopicsRequest{}
		for _, t := range todo {
			tc := kafka.TopicConfig{Topic: t.Name, NumPartitions: t.Partitions, ReplicationFactor: t.Replication}
			if t.Replication == 0 {
				tc.ReplicationFactor = -1
			}
			for _, k := range slices.Sorted(maps.Keys(t.config())) {
				tc.ConfigEntries = append(tc.ConfigEntries, kafka.ConfigEntry{ConfigName: k, ConfigValue: t.config()[k]})
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
				last = err // says more than that there is no broker
			}
		}
		if err == nil {
			var again []Topic
			for _, t := range todo {
				terr, answered := res.Errors[t.Name]
				var code kafka.Error
				switch {
				case !answered:
					again = append(again, t)
				case terr == nil || errors.Is(terr, kafka.TopicAlreadyExists):
				case errors.As(terr, &code) && code.Temporary():
					again, last = append(again, t), terr
				default:
					return fmt.Errorf("create topic %s: %w", t.Name, terr)
				}
			}
			todo = again
		}
		if len(todo) > 0 {
			told.why(ctx, began, last)
		}
		if len(todo) > 0 && !sleep(ctx, wait.NextBackOff()) {
			return fmt.Errorf("create topic %s: %w (last: %w)", todo[0].Name, context.Cause(ctx), last)
		}
	}
	return nil
}

// awaitTopics waits until every topic is known with a leader for each of its
// partitions.
func awaitTopics(ctx context.Context, cfg Config, names []string) (map[string]kafka.Topic, error) {
	return awaitTopicsSaying(ctx, cfg, names, func(error) {})
}

// awaitTopicsSaying is awaitTopics for whoever wants to know why it still waits.
func awaitTopicsSaying(ctx context.Context, cfg Config, names []string, why func(error)) (map[string]kafka.Topic, error) {
	wait := newBackoff(20*time.Millisecond, time.Second)
	told, began := newWaiting(cfg), time.Now()
	var last error
	for {
		// A transport of its own each time: it serves metadata from a cache.
		meta, err := fetchTopics(ctx, cfg, names)
		if err == nil {
			if err = unusable(meta, names); err == nil {
				return meta, nil
			}
		}
		if ctx.Err() == nil || last == nil { // else it says that the time is over, not why
			last = err
		}
		why(last)
		told.why(ctx, began, last)
		if !sleep(ctx, wait.NextBackOff()) {
			return nil, fmt.Errorf("await topics: %w (last: %w)", context.Cause(ctx), last)
		}
	}
}

// unusable says which of the topics is not there, or cannot be written to or read yet.
func unusable(meta map[string]kafka.Topic, names []string) error {
	for _, n := range names {
		t, ok := meta[n]
		if !ok {
			return fmt.Errorf("there is no topic %s (`muster migrate` makes it): %w", n, kafka.UnknownTopicOrPartition)
		}
		if len(t.Partitions) == 0 || slices.ContainsFunc(t.Partitions, func(p kafka.Partition) bool { return p.Error != nil || p.Leader.Host == "" }) {
			return fmt.Errorf("topic %s has no leader yet: %w", n, kafka.LeaderNotAvailable)
		}
	}
	return nil
}

// When a wait for the brokers is told to the log: commands that begin give up earlier, and say
// themselves why; services, and who writes, wait for minutes.
const (
	waitingFirst = 20 * time.Second
	waitingAgain = time.Minute
)

// waiting tells the log why the brokers, or topics, are still waited for. It is for any number
// of goroutines.
type waiting struct {
	logger *slog.Logger
	mu     sync.Mutex
	since  time.Time // when the first of those who wait began; zero: what was waited for came
	next   time.Time
}

func newWaiting(cfg Config) *waiting { return &waiting{logger: cfg.logger()} }

// over says that what was waited for came.
func (w *waiting) over() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Time{}
}

// why is of somebody who has waited since he began, and may give up earlier than is told.
func (w *waiting) why(ctx context.Context, began time.Time, err error) {
	if w == nil {
		return
	}
	w.mu.Lock()
	if w.since.IsZero() || began.Before(w.since) {
		w.since = began
	}
	now := time.Now()
	early := now.Before(w.since.Add(waitingFirst)) || now.Before(w.next)
	if !early {
		w.next = now.Add(waitingAgain)
	}
	w.mu.Unlock()
	if early {
		return
	}
	w.logger.LogAttrs(ctx, slog.LevelWarn, "Kafka, or topics of it, are still waited for", slog.Any("error", err))
}

// fetchTopics asks the brokers, past any cache, for the named topics; missing
// ones are absent from the answer.
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

func compareTopics(ctx context.Context, client *kafka.Client, topics []Topic, meta map[string]kafka.Topic) ([]Mismatch, error) {
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

// sameSetting compares settings; lists (compact,delete) have no order.
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
