package answers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/projector"
	"muster/projector/answers"
	"muster/projector/erasure"
	"muster/projector/internal/projectortest"
	"muster/projector/project"
	"muster/projector/replay"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// TestAnswers_EqualBruteForceAfterLateStatements projects random histories of a few accounts, while statements fail,
// succeed with an error, or run after the builder that sent them has given up, as those of a killed process. Meanwhile
// the projector restarts, the topic of touches is recreated, answers are replayed, and an author is erased. Every row
// that a reader may see is of one build; at rest each equals what brute force makes of the newest records.
// MUSTER_PROPERTY_SEED is the first seed, MUSTER_PROPERTY_RUNS the number of seeds.
//
// deploy/e2e has the same property of the whole platform, whose processes are killed.
func TestAnswers_EqualBruteForceAfterLateStatements(t *testing.T) {
	setting := func(name string, otherwise uint64) uint64 {
		if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
			return n
		}
		return otherwise
	}
	first, runs := setting("MUSTER_PROPERTY_SEED", 1), uint64(3)
	if testing.Short() {
		runs = 1
	}
	for seed := first; seed < first+setting("MUSTER_PROPERTY_RUNS", runs); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { newHistory(seed).run(t) })
	}
}

// erasedAuthor is erased by every history; the author's names begin with erasedName.
const (
	erasedAuthor = "dev2@x.example"
	erasedName   = "N2."
)

// version is a version of an entity: an account, or one of its repositories, commits or complete lists.
type version struct {
	kind    record.Kind
	account int
	id      string // within the account
	number  int    // of the version; the greatest wins
	members map[string]any
}

// date is the version as the records have it.
func (v version) date() string {
	return time.Date(2026, 1, 1, 0, 0, v.number, 0, time.UTC).Format(time.RFC3339)
}

// mark is in the texts of a version.
func (v version) mark() string { return fmt.Sprintf("<%d/%s/%d>", v.account, v.id, v.number) }

func (v version) isDeleted() bool { return v.members["deleted"] == true }

func (v version) text(name string) string {
	s, _ := v.members[name].(string)
	return s
}

// history is a random sequence of versions.
type history struct {
	rng      *rand.Rand
	versions []version
	accounts []int

	published int // versions so far
	erased    bool
	lost      bool // a recreated topic may have lost touches
}

func newHistory(seed uint64) *history {
	h := &history{rng: rand.New(rand.NewPCG(seed, 1))}
	for account := 1; account <= 6; account++ {
		h.accounts = append(h.accounts, account)
		h.revise(account, record.KindCodehostPerson, "", h.person)
		for i := range h.rng.IntN(5) {
			h.revise(account, record.KindCodehostRepo, fmt.Sprint(i+1), h.repo)
		}
		for i := range h.rng.IntN(6) {
			h.revise(account, record.KindCodehostCommit, fmt.Sprintf("c%d", i+1), h.commitBy(1+h.rng.IntN(8)))
		}
		for _, list := range []string{"repos", "commits"} {
			if h.rng.IntN(3) == 0 {
				h.revise(account, record.KindCodehostList, list, h.list)
			}
		}
	}
	h.rng.Shuffle(len(h.versions), func(a, b int) { h.versions[a], h.versions[b] = h.versions[b], h.versions[a] })
	for range len(h.versions) / 10 { // delivered twice
		h.versions = append(h.versions, h.versions[h.rng.IntN(len(h.versions))])
	}
	return h
}

// revise draws versions of an entity.
func (h *history) revise(account int, kind record.Kind, id string, content func(version) map[string]any) {
	for _, number := range h.rng.Perm(60)[:1+h.rng.IntN(4)] {
		v := version{kind: kind, account: account, id: id, number: number}
		if v.members = content(v); h.rng.IntN(6) == 0 {
			v.members = map[string]any{"deleted": true}
		}
		h.versions = append(h.versions, v)
	}
}

func (h *history) pick(from ...string) string { return from[h.rng.IntN(len(from))] }

func (h *history) person(v version) map[string]any {
	out := map[string]any{"codehost_username": h.pick("ann", "bob", "cat", "dan"), "bio": v.mark()}
	if h.rng.IntN(3) == 0 {
		out["commit_count"] = 1000
	}
	if h.rng.IntN(4) == 0 {
		out["repo_languages"] = []string{"Ada"}
	}
	return out
}

func (h *history) repo(v version) map[string]any {
	out := map[string]any{"name": v.mark()}
	if l := h.pick("", "Go", "C", "Zig"); l != "" {
		out["language"] = l
	}
	return out
}

// commitBy returns what draws versions of a commit. All have the author's address, because a commit's erasure removes
// all versions.
func (h *history) commitBy(author int) func(version) map[string]any {
	return func(v version) map[string]any {
		out := map[string]any{"message": v.mark(), "author_name": fmt.Sprintf("N%d.%d", author, h.rng.IntN(2))}
		if author <= 6 {
			out["author_email"] = fmt.Sprintf("dev%d@x.example", author)
		}
		if login := h.pick("", "", "Ann", "bob", "other"); login != "" {
			out["author_login"] = login
		}
		return out
	}
}

func (h *history) list(v version) map[string]any {
	items := []string{}
	for i := range 5 {
		if h.rng.IntN(2) == 0 {
			items = append(items, map[string]string{"repos": "", "commits": "c"}[v.id]+strconv.Itoa(i+1))
		}
	}
	return map[string]any{"items": items}
}

// record encodes a version.
func (v version) record(tb testing.TB) *record.Record {
	out := map[string]any{"user_id": v.account}
	for name, value := range v.members {
		out[name] = value
	}
	switch v.kind {
	case record.KindCodehostRepo:
		id, err := strconv.Atoi(v.id)
		require.NoError(tb, err)
		out["id"], out["updated_at"] = id, v.date()
	case record.KindCodehostCommit:
		out["sha"], out["author_date"] = v.id, v.date()
	case record.KindCodehostList:
		out["list"], out["last_updated"] = v.id, v.date()
	default:
		out["last_updated"] = v.date()
	}
	raw, err := json.Marshal(out, json.Deterministic(true))
	require.NoError(tb, err)
	return projectortest.Decode(tb, v.kind, string(raw))
}

// newest returns the newest published version of an entity; ok is false if there is none.
func (h *history) newest(account int, kind record.Kind, id string) (newest version, ok bool) {
	for _, v := range h.versions[:h.published] {
		if v.account == account && v.kind == kind && v.id == id && (!ok || v.number > newest.number) {
			newest, ok = v, true
		}
	}
	return newest, ok
}

// visible returns the newest versions of an account's repositories or commits that are shown, in their order.
func (h *history) visible(account int, kind record.Kind, list string) []version {
	complete, isComplete := h.newest(account, record.KindCodehostList, list)
	isComplete = isComplete && !complete.isDeleted()
	var out []version
	for i := range 9 {
		v, ok := h.newest(account, kind, map[string]string{"repos": "", "commits": "c"}[list]+strconv.Itoa(i))
		if !ok || v.isDeleted() || h.erased && v.text("author_email") == erasedAuthor {
			continue
		}
		if items, _ := complete.members["items"].([]string); isComplete && v.number <= complete.number &&
			!slices.Contains(items, v.id) {
			continue
		}
		out = append(out, v)
	}
	slices.SortStableFunc(out, func(a, b version) int { return b.number - a.number })
	return out
}

// byFrequency returns distinct values, the most frequent first, then by value.
func byFrequency(values []string) []string {
	count := map[string]int{}
	for _, v := range values {
		count[v]++
	}
	var out []string
	for v := range count {
		if v != "" {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return strings.Compare(a, b)
	})
	return out
}

// answer is what is compared of an account in the shape of enrichment.
type answer struct {
	Username    string   `json:"codehost_username"`
	Bio         string   `json:"bio"`
	Names       []string `json:"names"`
	Emails      []string `json:"emails"`
	Languages   []string `json:"repo_languages"`
	CommitCount int      `json:"commit_count"`
	Repos       []struct {
		ID   int    `json:"repo_id"`
		Name string `json:"name"`
		Lang string `json:"language"`
	} `json:"repos"`
	ReposCount int `json:"repos_count"`
	Commits    []struct {
		SHA     string `json:"sha"`
		Message string `json:"message"`
	} `json:"commits"`
	CommitsCount int `json:"commits_count"`
}

func newAnswer(tb testing.TB, row *readmodel.AnswerRow) (out answer) {
	raw := append(row.AppendEntries(row.AppendAccount([]byte{'{'}, readmodel.ShapeEnrich), readmodel.ShapeEnrich), '}')
	require.NoError(tb, json.Unmarshal(raw, &out), string(raw))
	return out
}

// expect computes an account's answer from the newest versions; ok is false if there is none.
func (h *history) expect(account int) (want answer, ok bool) {
	owner, ok := h.newest(account, record.KindCodehostPerson, "")
	if !ok || owner.isDeleted() {
		return want, false
	}
	want.Username, want.Bio = owner.text("codehost_username"), owner.mark()
	var languages, names, emails []string
	repos, commits := h.visible(account, record.KindCodehostRepo, "repos"), h.visible(account,
		record.KindCodehostCommit, "commits")
	want.ReposCount, want.CommitsCount, want.CommitCount = len(repos), len(commits), len(commits)
	for _, r := range repos {
		id, _ := strconv.Atoi(r.id)
		languages = append(languages, r.text("language"))
		want.Repos = append(want.Repos, struct {
			ID   int    `json:"repo_id"`
			Name string `json:"name"`
			Lang string `json:"language"`
		}{id, r.mark(), r.text("language")})
	}
	for _, c := range commits {
		want.Commits = append(want.Commits, struct {
			SHA     string `json:"sha"`
			Message string `json:"message"`
		}{c.id, c.mark()})
		if login := strings.ToLower(c.text("author_login")); login == "" || login == want.Username {
			names, emails = append(names, c.text("author_name")), append(emails, c.text("author_email"))
		}
	}
	want.Names, want.Emails, want.Languages = byFrequency(names), byFrequency(emails), byFrequency(languages)
	if owner.members["commit_count"] != nil {
		want.CommitCount = 1000
	}
	if owner.members["repo_languages"] != nil {
		want.Languages = []string{"Ada"}
	}
	return want, true
}

// checkRow checks what is true of every row that a reader may see.
func (h *history) checkRow(tb testing.TB, row *readmodel.AnswerRow, set *suppress.Set) {
	if row.Deleted {
		return
	}
	got := newAnswer(tb, row.WithoutSuppressed(set.Author))
	languages := map[string]bool{}
	require.Len(tb, got.Repos, got.ReposCount)
	require.Len(tb, got.Commits, got.CommitsCount)
	marks := []string{got.Bio}
	for _, r := range got.Repos {
		marks = append(marks, r.Name)
		if r.Lang != "" {
			languages[r.Lang] = true
		}
	}
	for _, c := range got.Commits {
		marks = append(marks, c.Message)
	}
	for _, m := range marks {
		i := slices.IndexFunc(h.versions, func(v version) bool { return v.mark() == m })
		require.GreaterOrEqual(tb, i, 0, m)
		require.EqualValues(tb, row.UserID, h.versions[i].account, m)
		require.False(tb, h.erased && h.versions[i].text("author_email") == erasedAuthor, "%s is erased", m)
	}
	if !slices.Equal(got.Languages, []string{"Ada"}) {
		require.Len(tb, got.Languages, len(languages), "languages of other repositories")
	}
	if got.CommitCount != 1000 {
		require.Equal(tb, got.CommitsCount, got.CommitCount)
	}
	require.False(tb, h.erased && slices.Contains(got.Emails, erasedAuthor))
	for _, name := range got.Names {
		require.False(tb, h.erased && strings.HasPrefix(name, erasedName), "%s is erased", name)
	}
}

// faultyConn lets statements fail.
type faultyConn struct {
	driver.Conn
	mu   sync.Mutex
	rng  *rand.Rand
	off  bool
	late sync.WaitGroup // statements that run after their sender has given up
}

var errFault = errors.New("fault of the test")

func (c *faultyConn) draw(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off {
		return -1
	}
	return c.rng.IntN(n)
}

// pause ends the faults and waits for late statements. It returns what makes the next ones.
func (c *faultyConn) pause() (resume func()) {
	set := func(off bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.off = off
	}
	set(true)
	c.late.Wait()
	return func() { set(false) }
}

func (c *faultyConn) Exec(ctx context.Context, query string, args ...any) error {
	if !strings.HasPrefix(query, "INSERT INTO codehost_answers") {
		if c.draw(20) == 0 {
			return errFault
		}
		return c.Conn.Exec(ctx, query, args...)
	}
	pause := time.Duration(max(0, c.draw(400))) * time.Millisecond
	switch c.draw(8) {
	case 0:
		return errFault
	case 1:
		return errors.Join(c.Conn.Exec(ctx, query, args...), errFault)
	case 2, 3: // The process is gone, and its statement is executed later.
		c.late.Go(func() {
			<-time.After(pause)
			_ = c.Conn.Exec(context.WithoutCancel(ctx), query, args...)
		})
		return errFault
	case 4:
		<-time.After(pause)
	}
	return c.Conn.Exec(ctx, query, args...)
}

func (c *faultyConn) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	if c.draw(20) == 0 {
		return nil, errFault
	}
	return c.Conn.Query(ctx, query, args...)
}

func (c *faultyConn) PrepareBatch(
	ctx context.Context, query string, opts ...driver.PrepareBatchOption,
) (driver.Batch, error) {
	if c.draw(20) == 0 {
		return nil, errFault
	}
	return c.Conn.PrepareBatch(ctx, query, opts...)
}

func (h *history) run(t *testing.T) {
	k := projectortest.New(t)
	conn := &faultyConn{Conn: k.Conn, rng: rand.New(rand.NewPCG(h.rng.Uint64(), 2))}
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	start := func() func() {
		return k.Start(func(_ *projector.Config, d *project.Deps) { d.Conn, d.Suppressed = conn, set })
	}
	stop := start()
	steps := []string{"restart", "topic", "replay", "erase", "restart", "topic", "compare", "compare"}
	h.rng.Shuffle(len(steps), func(a, b int) { steps[a], steps[b] = steps[b], steps[a] })
	var swept <-chan struct{}
	var replaying sync.WaitGroup
	for i, step := range steps {
		h.publish(t, k, set, len(h.versions)*(i+1)/len(steps))
		t.Logf("%s after %d of %d versions", step, h.published, len(h.versions))
		switch step {
		case "restart":
			stop()
			stop = start()
		case "topic":
			partitions := 1 + h.rng.IntN(8)
			t.Logf("%d partitions", partitions)
			recreateTouches(t, k, partitions)
			h.lost = true
		case "replay":
			replaying.Go(func() {
				_, err := replay.Answers(t.Context(), replay.Deps{Deps: project.Deps{
					Conn: k.Conn, Logger: slog.New(slog.DiscardHandler),
				}})
				t.Logf("replay of answers: %v", err)
			})
		case "erase":
			swept = eraseAuthor(t, k, set)
			h.erased = true
		case "compare":
			h.compare(t, k, conn, swept)
		}
	}
	replaying.Wait()
	h.compare(t, k, conn, swept)
}

// publish publishes the versions before end in batches, and reads rows meanwhile.
func (h *history) publish(t *testing.T, k *projectortest.Harness, set *suppress.Set, end int) {
	t.Helper()
	for h.published < end {
		n := min(1+h.rng.IntN(12), end-h.published)
		var recs []*record.Record
		for _, v := range h.versions[h.published : h.published+n] {
			recs = append(recs, v.record(t))
		}
		h.published += n
		k.PublishRecords(recs...)
		for range 1 + h.rng.IntN(6) {
			for _, row := range k.Answers(ids(h.accounts)...) {
				h.checkRow(t, &row, set)
			}
		}
	}
}

// compare waits until everything published is projected, without faults, and compares all answers.
func (h *history) compare(t *testing.T, k *projectortest.Harness, conn *faultyConn, swept <-chan struct{}) {
	t.Helper()
	if swept != nil {
		<-swept
	}
	defer conn.pause()()
	if !h.lost {
		k.CaughtUp()
	} else {
		catchUpRecreated(t, k)
		n, err := answers.TouchDiffering(t.Context(), k.Conn, k.Writer)
		require.NoError(t, err)
		t.Logf("%d answers differ after the topic was recreated", n)
		k.CaughtUp()
		h.lost = false
	}
	found := map[int64]readmodel.AnswerRow{}
	for _, row := range k.Answers(ids(h.accounts)...) {
		found[row.UserID] = row
	}
	for _, account := range h.accounts {
		want, ok := h.expect(account)
		row, has := found[int64(account)]
		require.Equal(t, ok, has && !row.Deleted, "account %d", account)
		if ok {
			require.Equal(t, want, newAnswer(t, &row), "account %d", account)
		}
	}
}

func ids(accounts []int) []int64 {
	out := make([]int64, len(accounts))
	for i, a := range accounts {
		out[i] = int64(a)
	}
	return out
}

// recreateTouches deletes the topic of touches and makes it again.
func recreateTouches(t *testing.T, k *projectortest.Harness, partitions int) {
	t.Helper()
	client := &kafka.Client{Addr: kafka.TCP(k.Kafka.Brokers...), Timeout: 10 * time.Second}
	res, err := client.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{event.TopicAnswerTask}})
	require.NoError(t, err)
	require.NoError(t, res.Errors[event.TopicAnswerTask])
	require.NoError(t, bus.EnsureTopics(t.Context(), k.Kafka, []bus.Topic{
		{Name: event.TopicAnswerTask, Partitions: partitions, Replication: 1},
	}))
}

// catchUpRecreated is CaughtUp after the topic of touches was recreated. A consumer does not notice that if its
// position is the end of the new log, or becomes the end before it looks; it goes on with the next message. So each
// partition gets a touch now and then. A position past the end, which is no lag, is reset soon: until then touches may
// get lost.
func catchUpRecreated(t *testing.T, k *projectortest.Harness) {
	t.Helper()
	require.NoError(t, touchPartitions(t.Context(), k))
	caughtUp := make(chan struct{})
	var touching sync.WaitGroup
	touching.Go(func() {
		for {
			select {
			case <-caughtUp:
				return
			case <-time.After(15 * time.Second):
				if err := touchPartitions(t.Context(), k); err != nil {
					t.Errorf("touch the partitions: %v", err)
				}
			}
		}
	})
	defer touching.Wait()
	defer close(caughtUp)
	k.CaughtUp()
	for _, group := range []string{projector.AnswersGroup, projector.LinkedGroup} {
		projectortest.Eventually(t, func(ctx context.Context) bool {
			lags, err := bus.Lag(ctx, k.Kafka, group, []string{event.TopicAnswerTask})
			behind := func(l bus.PartitionLag) bool { return l.Committed != l.End }
			return err == nil && !slices.ContainsFunc(lags, behind)
		}, group+" is at the ends of the recreated topic")
	}
}

// touchPartitions writes a touch to each partition.
func touchPartitions(ctx context.Context, k *projectortest.Harness) (err error) {
	ends, err := bus.EndOffsets(ctx, k.Kafka, []string{event.TopicAnswerTask})
	if err != nil {
		return err
	}
	value, err := json.Marshal(event.AnswerTask{Kind: record.KindCodehostPerson, ID: "1"})
	if err != nil {
		return err
	}
	w := bus.NewWriter(k.Kafka, bus.WithFixedPartition)
	defer func() { err = errors.Join(err, w.Close()) }()
	touches := make([]kafka.Message, len(ends))
	for i, e := range ends {
		touches[i] = kafka.Message{Topic: event.TopicAnswerTask, Value: value, WriterData: e.Partition}
	}
	return bus.WriteAll(ctx, w, touches)
}

// eraseAuthor erases erasedAuthor and starts an eraser. The channel closes when the request is suppressed.
func eraseAuthor(t *testing.T, k *projectortest.Harness, set *suppress.Set) <-chan struct{} {
	t.Helper()
	value, err := json.Marshal(event.Erasure{
		RequestID: "r1", Action: event.ErasureRequested, At: time.Now().UTC().Add(-time.Second), Urgent: true,
	})
	require.NoError(t, err)
	k.Publish(kafka.Message{Topic: event.TopicErasureRequest, Key: []byte("r1"), Value: value})
	entry, err := json.Marshal(suppress.Entry{Type: suppress.Email, Scope: suppress.All, RequestedAt: "2026-11-21",
		Key: set.Key().ID()})
	require.NoError(t, err)
	require.NoError(t, set.Apply([]byte(set.Key().Of(suppress.Email, erasedAuthor).String()), entry))
	e, err := erasure.New(erasure.Config{Kafka: k.Kafka, Tombstones: time.Second, Replaced: time.Second},
		erasure.Deps{Conn: k.Conn, Suppressed: set, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	suppressed := make(chan struct{})
	var once sync.Once
	log := bus.Follow(ctx, k.Kafka, bus.FollowConfig{
		Topics: []string{event.TopicErasureRequest},
		Handle: func(_ context.Context, m kafka.Message) error {
			var r event.Erasure
			if err := json.Unmarshal(m.Value, &r); err != nil {
				return err
			}
			if r.Action == event.ErasureSuppressed {
				once.Do(func() { close(suppressed) })
			}
			return nil
		},
	})
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, log.Close())
	})
	return suppressed
}
