package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/deploy/e2e/internal/oracle"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	records "muster/schemas/record"
)

// TestAnswers_EqualBruteForceAfterRandomFaults ingests a random history in random order and pieces, while the engine
// and `muster up` are killed, the topic of touches is recreated with another number of partitions, answers are
// replayed, people are erased, and an erasure is withdrawn. Readers check meanwhile that no answer is half-built or shows another
// person's text. At the end every answer is what brute force makes of the records. MUSTER_E2E_SEED is the first seed,
// MUSTER_PROPERTY_RUNS the number of seeds (make property).
func TestAnswers_EqualBruteForceAfterRandomFaults(t *testing.T) {
	t.Parallel()
	first := seed(t)
	for i := range number(t, "MUSTER_PROPERTY_RUNS", 1) {
		drawn := first + uint64(i)
		t.Run(fmt.Sprintf("seed %d", drawn), func(t *testing.T) { answersEqualBruteForce(t, drawn) })
	}
}

func answersEqualBruteForce(t *testing.T, drawn uint64) {
	w := newPropertyWorld(drawn)
	rng := rand.New(rand.NewPCG(drawn, 7))
	ports := fixedPorts(t)
	p := start(t, newDataDir(t), append(ports, "--no-sample")...)
	batches := newPropertyBatches(w.events, rng)
	t.Logf("%d versions of records in %d batches", len(w.events), len(batches))

	readers := startReaders(t, p, w, drawn)
	feeder := startFeeder(t, p, batches, rng.Uint64())
	faults := []string{"engine", "up", "topic", "engine", "up", "replay"}
	rng.Shuffle(len(faults), func(a, b int) { faults[a], faults[b] = faults[b], faults[a] })
	erasures := rng.Perm(len(faults))[:len(w.erasures)]
	var erasing, replaying sync.WaitGroup
	for i, fault := range faults {
		feeder.await(t, (i+1)*len(batches)/(len(faults)+1))
		if n := slices.Index(erasures, i); n >= 0 {
			erasing.Go(func() { eraseAndAwait(t, p.dataDir, n, readers) })
		}
		pause := time.Duration(rng.IntN(400)) * time.Millisecond
		<-time.After(pause)
		switch fault {
		case "topic":
			mustRecreateTopic(t, p, event.TopicAnswerTask, 1+rng.IntN(16))
		case "replay":
			replaying.Go(func() { replayAnswers(t, p.dataDir) })
		default:
			p = kill(t, p, fault, fmt.Sprintf("%d batches, and %s", feeder.published(), pause), ports)
		}
	}
	feeder.await(t, len(batches))
	// A start looks for answers that differ from the rows: the recreated topic has lost touches.
	p = kill(t, p, "up", "everything published", ports)
	erasing.Wait()
	replaying.Wait()
	for b := range slices.Chunk(w.returning(), 30) {
		require.NoError(t, feeder.batch(t.Context(), t.TempDir(), b, "?again=true"))
	}
	p.muster(t, "status", "--wait", "--timeout", "3m")
	awaitAnswersOfNewestRows(t, p)
	<-time.After(500 * time.Millisecond) // the readers also see the final state
	readers.stop(t)
	if t.Failed() {
		return
	}
	compareWithOracle(t, p, w)
	if rng.IntN(2) == 0 {
		p.muster(t, "replay", "answers")
		compareWithOracle(t, p, w)
	}
	p.stop(t)
}

// replayAnswers rebuilds all answers. The platform may be killed meanwhile.
func replayAnswers(t *testing.T, dataDir string) {
	began := time.Now()
	r, err := muster(t.Context(), dataDir, "replay", "answers")
	if err != nil {
		t.Errorf("replay answers: %v", err)
		return
	}
	t.Logf("replay answers ended with status %d after %s: %s", r.status, time.Since(began).Round(time.Millisecond),
		r.errors)
}

// newPropertyBatches cuts events into batches of random sizes.
func newPropertyBatches(events []propertyEvent, rng *rand.Rand) [][]propertyEvent {
	var out [][]propertyEvent
	for len(events) > 0 {
		n := min(len(events), 1+rng.IntN(30))
		out, events = append(out, events[:n]), events[n:]
	}
	return out
}

// propertyFeeder publishes batches sequentially, each until it is acknowledged.
type propertyFeeder struct {
	*ingesting
	ingestURL, token, dataDir string
	kafka                     bus.Config
	rng                       *rand.Rand
}

func startFeeder(t *testing.T, p *platform, batches [][]propertyEvent, drawn uint64) *propertyFeeder {
	f := &propertyFeeder{
		ingesting: &ingesting{progress: make(chan struct{})}, ingestURL: p.IngestURL, token: p.OperatorToken,
		dataDir: p.dataDir, kafka: p.bus(t), rng: rand.New(rand.NewPCG(drawn, 8)),
	}
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	f.done.Go(func() {
		for _, b := range batches {
			if err := f.batch(ctx, dir, b, ""); err != nil {
				f.note(func() { f.err = err })
				return
			}
			f.note(func() { f.ok++ })
			wait(ctx, time.Duration(f.rng.IntN(300))*time.Millisecond) // so that readers see intermediate states
		}
	})
	t.Cleanup(func() { cancel(); f.wait() })
	return f
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// batch brings in one batch: part of it by HTTP push or `muster ingest`, the rest straight to the topics. query is that
// of pushes; with one, nothing is ingested by the command.
func (f *propertyFeeder) batch(ctx context.Context, dir string, events []propertyEvent, query string) error {
	pushed := map[string]*bytes.Buffer{}
	var direct []kafka.Message
	for _, e := range events {
		if !e.direct {
			if pushed[e.kind] == nil {
				pushed[e.kind] = &bytes.Buffer{}
			}
			pushed[e.kind].Write(append(slices.Clone(e.raw), '\n'))
			continue
		}
		r, err := records.Decode(records.Kind(e.kind), e.raw)
		if err != nil {
			return fmt.Errorf("decode %s: %w", e.raw, err)
		}
		direct = append(direct, kafka.Message{Topic: r.Kind.Topic(), Key: []byte(r.Key), Value: e.raw})
	}
	if len(direct) > 0 {
		if err := f.until(ctx, func() (bool, error) { return f.produce(ctx, direct) == nil, nil }); err != nil {
			return err
		}
	}
	for _, kind := range kinds {
		body := pushed[kind]
		if body == nil {
			continue
		}
		attempt := func() (bool, error) { return f.push(ctx, kind+query, body.Bytes()) }
		if query == "" && f.rng.IntN(12) == 0 {
			path := filepath.Join(dir, kind+".ndjson")
			if err := os.WriteFile(path, body.Bytes(), 0o600); err != nil {
				return err
			}
			attempt = func() (bool, error) {
				r, err := muster(ctx, f.dataDir, "ingest", kind, path)
				if err == nil && r.status != 0 && r.status != 2 && ctx.Err() == nil {
					err = fmt.Errorf("ingest: exit status %d\n%s%s", r.status, r.out, r.errors)
				}
				return r.status == 0, err
			}
		}
		if err := f.until(ctx, attempt); err != nil {
			return err
		}
	}
	return nil
}

// until retries an attempt until it succeeds.
func (f *propertyFeeder) until(ctx context.Context, attempt func() (done bool, err error)) error {
	for {
		done, err := attempt()
		if done || err != nil {
			return err
		}
		f.note(func() { f.bad++ })
		wait(ctx, 100*time.Millisecond)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func (f *propertyFeeder) produce(ctx context.Context, messages []kafka.Message) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var topics []string
	for _, m := range messages {
		if !slices.Contains(topics, m.Topic) {
			topics = append(topics, m.Topic)
		}
	}
	writer := bus.NewWriter(f.kafka, bus.WithTopics(f.kafka, topics...))
	defer func() { _ = writer.Close() }()
	return bus.WriteAll(ctx, writer, messages)
}

// push posts records. It ignores errors while the platform is down, since the batch is sent again.
func (f *propertyFeeder) push(ctx context.Context, kind string, body []byte) (done bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.ingestURL+"/ingest/v1/"+kind, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Authorization", "Bearer "+f.token)
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := newClient().Do(req)
	if err != nil {
		return false, nil
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil || resp.StatusCode >= http.StatusInternalServerError || resp.StatusCode == http.StatusTooManyRequests:
		return false, nil
	case resp.StatusCode != http.StatusOK:
		return false, fmt.Errorf("push %s: status %d: %s\n%s", kind, resp.StatusCode, answer, body)
	}
	return true, nil
}

// eraseAndAwait erases people, with retries, until the command reports that they are no longer shown.
func eraseAndAwait(t *testing.T, dataDir string, n int, readers *propertyReaders) {
	args := append([]string{"erase", "--timeout", "1m"}, readers.world.erasures[n].identifiers...)
	began := time.Now()
	for time.Since(began) < startTimeout {
		r, err := muster(t.Context(), dataDir, args...)
		if err != nil {
			t.Errorf("erasure %d: %v", n, err)
			return
		}
		if r.status == 0 && strings.Contains(r.out, "no longer shown") {
			readers.effective(n)
			t.Logf("erasure %d is effective after %s", n, time.Since(began).Round(time.Millisecond))
			if readers.world.erasures[n].withdrawn {
				wait(t.Context(), time.Second)
				withdraw(t, dataDir, n, readers)
			}
			return
		}
		wait(t.Context(), 100*time.Millisecond)
	}
	t.Errorf("erasure %d is not effective after %s", n, startTimeout)
}

// withdraw withdraws an erasure, however often that takes.
func withdraw(t *testing.T, dataDir string, n int, readers *propertyReaders) {
	readers.withdraw(n)
	args := append([]string{"erase", "withdraw"}, readers.world.erasures[n].identifiers...)
	for began := time.Now(); time.Since(began) < startTimeout; wait(t.Context(), 100*time.Millisecond) {
		r, err := muster(t.Context(), dataDir, args...)
		if err != nil {
			t.Errorf("withdraw erasure %d: %v", n, err)
			return
		}
		if r.status == 0 || strings.Contains(r.errors, "nothing to withdraw") {
			t.Logf("erasure %d is withdrawn after %s", n, time.Since(began).Round(time.Millisecond))
			return
		}
	}
	t.Errorf("erasure %d is not withdrawn after %s", n, startTimeout)
}

// mustRecreateTopic deletes a topic and makes it again, without its messages.
func mustRecreateTopic(t *testing.T, p *platform, name string, partitions int) {
	t.Helper()
	cfg := p.bus(t)
	began := time.Now()
	client := &kafka.Client{
		Addr: kafka.TCP(cfg.Brokers...), Timeout: 10 * time.Second,
		Transport: &kafka.Transport{TLS: cfg.TLS, SASL: cfg.SASL},
	}
	res, err := client.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{name}})
	require.NoError(t, err)
	require.NoError(t, res.Errors[name])
	topics := event.Topics()
	i := slices.IndexFunc(topics, func(t event.Topic) bool { return t.Name == name })
	require.NotEqual(t, -1, i)
	require.NoError(t, bus.EnsureTopics(t.Context(), cfg, []bus.Topic{
		{Name: name, Partitions: partitions, Config: topics[i].Config()},
	}))
	t.Logf("recreated %s with %d partitions in %s", name, partitions, time.Since(began).Round(time.Millisecond))
}

// awaitAnswersOfNewestRows waits until every answer matches the rows of its account.
func awaitAnswersOfNewestRows(t *testing.T, p *platform) {
	t.Helper()
	conn, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: p.ClickHouseURL})
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	began := time.Now()
	eventuallyEvery(t, time.Minute, 100*time.Millisecond, func() (bool, string) {
		differing, err := readmodel.DifferingAnswers(t.Context(), conn, readmodel.AnswersTable, math.MinInt64, math.MaxInt64)
		return err == nil && len(differing) == 0, fmt.Sprintf("answers of %v differ from the rows (error %v)", differing, err)
	})
	t.Logf("no answer differs after another %s", time.Since(began).Round(time.Millisecond))
}

// compareWithOracle compares every answer with the one that the oracle computes from the remaining records.
func compareWithOracle(t *testing.T, p *platform, w *propertyWorld) {
	t.Helper()
	store := oracle.New()
	for _, e := range w.events {
		if w.remains(e) {
			require.NoError(t, store.Add(e.kind, e.raw))
		}
	}
	require.NoError(t, store.Seal())
	c := newChecker(p, store)
	var network, codehost []asked
	var requests []oracle.PersonRequest
	for i, name := range w.usernames[identity.Network] {
		network = append(network, asked{identifier: name})
		other := w.usernames[identity.Codehost][i]
		codehost = append(codehost, asked{identifier: other})
		for _, websets := range [][]string{both, {"codehost"}, {"network"}} {
			requests = append(requests, oracle.PersonRequest{NetworkUsername: name, Websets: websets},
				oracle.PersonRequest{Codehost: other, Websets: websets},
				oracle.PersonRequest{NetworkUsername: name, Codehost: other, Websets: websets})
		}
	}
	for i := range propertyPeople {
		codehost = append(codehost, asked{identifier: itoa(firstAccount + i)})
	}
	for _, address := range w.addresses {
		requests = append(requests, oracle.PersonRequest{Email: address, Websets: both})
	}
	for _, er := range w.erasures {
		for _, name := range er.names {
			switch platform, name, _ := strings.Cut(name, "/"); platform {
			case identity.Network:
				network = append(network, asked{identifier: name, known: !er.withdrawn})
			default:
				codehost = append(codehost, asked{identifier: name, known: !er.withdrawn})
			}
		}
	}
	for _, addons := range [][]string{nil, {"codehost"}, {"personal_email"}, {"codehost", "personal_email"}} {
		check(t, c, listCallers, batches(network, addons...), c.network)
	}
	for _, addons := range [][]string{nil, {"network"}} {
		check(t, c, listCallers, batches(codehost, addons...), c.codehost)
	}
	check(t, c, listCallers, requests, c.person)
	require.Positive(t, c.compared.Load())
}

// propertyReaders request answers continuously, and check invariants that hold at all times.
type propertyReaders struct {
	world  *propertyWorld
	base   string
	key    string
	cancel context.CancelFunc
	done   sync.WaitGroup

	answers, people, links, failures atomic.Int64

	mu       sync.Mutex
	erased   map[int]time.Time // when an erasure was reported as effective
	problems []string
}

func startReaders(t *testing.T, p *platform, w *propertyWorld, drawn uint64) *propertyReaders {
	ctx, cancel := context.WithCancel(t.Context())
	r := &propertyReaders{world: w, base: p.BaseURL, key: p.APIKey, cancel: cancel, erased: map[int]time.Time{}}
	for i := range uint64(2) {
		r.done.Go(func() { r.read(ctx, rand.New(rand.NewPCG(drawn, 100+i))) })
	}
	t.Cleanup(func() { cancel(); r.done.Wait() })
	return r
}

// stop stops the readers and reports their problems.
func (r *propertyReaders) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	r.done.Wait()
	for _, p := range r.problems {
		t.Error(p)
	}
	t.Logf("readers: %d answers with %d records, %d of them linked; %d errors", r.answers.Load(), r.people.Load(),
		r.links.Load(), r.failures.Load())
	require.Greater(t, r.people.Load(), int64(30), "too few answers were read")
	require.Positive(t, r.links.Load(), "no linked answers were read")
}

func (r *propertyReaders) effective(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.erased[n] = time.Now()
}

func (r *propertyReaders) withdraw(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.erased, n)
}

func (r *propertyReaders) problem(what string, raw []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.problems) < maxProblems {
		at := time.Now().Format("15:04:05.000")
		r.problems = append(r.problems, fmt.Sprintf("reader at %s: %s: %v\n%s", at, what, err, raw))
	}
}

func (r *propertyReaders) read(ctx context.Context, rng *rand.Rand) {
	a := &api{base: r.base, key: r.key, client: newClient(), bulk: new(atomic.Int64)}
	defer a.client.CloseIdleConnections()
	username := func(platform string) string {
		if rng.IntN(8) == 0 {
			er := r.world.erasures[rng.IntN(len(r.world.erasures))]
			for _, n := range er.names {
				if name, ok := strings.CutPrefix(n, platform+"/"); ok {
					return name
				}
			}
		}
		return r.world.usernames[platform][rng.IntN(propertyUsernames)]
	}
	for ctx.Err() == nil {
		path, body := "/v1/person/enrich", record{"websets": both}
		switch rng.IntN(5) {
		case 0, 1:
			body["codehost"] = username(identity.Codehost)
		case 2:
			body["network_username"] = username(identity.Network)
		case 3:
			path = "/v1/webset/codehost/person"
			body = record{"codehost": username(identity.Codehost), "addons": []string{"network"}}
			if rng.IntN(2) == 0 {
				body["codehost"] = itoa(firstAccount + rng.IntN(propertyPeople))
			}
		default:
			path = "/v1/webset/network/person"
			body = record{"network": username(identity.Network), "addons": []string{"codehost", "personal_email"}}
		}
		began := time.Now()
		got, err := a.post(ctx, path, body)
		if err != nil || got.status != http.StatusOK {
			if ctx.Err() == nil && err == nil && got.status < http.StatusInternalServerError {
				r.problem(fmt.Sprintf("%s %v: status %d", path, body, got.status), got.body, nil)
			}
			r.failures.Add(1)
			wait(ctx, 20*time.Millisecond)
			continue
		}
		r.answers.Add(1)
		if err := r.check(path, got.body, began); err != nil {
			r.problem(fmt.Sprintf("%s %v", path, body), got.body, err)
		}
	}
}

func (r *propertyReaders) check(path string, raw []byte, began time.Time) error {
	if err := r.checkErased(string(raw), began); err != nil {
		return err
	}
	var answer map[string]any
	if err := json.Unmarshal(raw, &answer); err != nil {
		return err
	}
	var account, profile map[string]any
	switch path {
	case "/v1/person/enrich":
		person, _ := answer["person"].(map[string]any)
		account, _ = person["codehost"].(map[string]any)
		profile, _ = person["network"].(map[string]any)
	case "/v1/webset/codehost/person":
		account = answer
		profile, _ = answer["network"].(map[string]any)
		delete(answer, "network")
	default:
		account, _ = answer["codehost"].(map[string]any)
		delete(answer, "codehost")
		profile = answer
	}
	var accountOwner, profileOwner string
	var err error
	if len(account) > 0 {
		r.people.Add(1)
		if accountOwner, err = r.world.checkAccount(account); err != nil {
			return fmt.Errorf("the account: %w", err)
		}
	}
	if len(profile) > 0 {
		r.people.Add(1)
		if profileOwner, err = r.world.checkProfile(profile); err != nil {
			return fmt.Errorf("the profile: %w", err)
		}
	}
	if accountOwner != "" && profileOwner != "" {
		r.links.Add(1)
		if !r.world.mayBeOne(accountOwner, profileOwner) {
			return fmt.Errorf("%s and %s were never linked", accountOwner, profileOwner)
		}
	}
	return nil
}

// The checks of the readers get answers with one defect each.
func TestPropertyReaders_FindBadAnswers(t *testing.T) {
	t.Parallel()
	w := newPropertyWorld(1)
	w.bore, w.declared, w.linked = map[string]map[string]bool{}, map[string]map[string]bool{}, map[[2]string]bool{}
	note(w.bore, "cp:105", "dev-1")
	note(w.bore, "np:p_5", "pro-1")
	note(w.bore, "np:p_6", "pro-2")
	note(w.declared, "cp:105", "pro-1")
	at := "2026-01-01T00:00:00Z"
	for _, m := range []mark{{"cp", "105", 1}, {"cp", "105", 2}, {"cr", "105/1", 3}, {"np", "p_5", 4}, {"np", "p_6", 4}} {
		w.versionAt[m] = map[string]bool{at: true}
	}
	r := &propertyReaders{world: w, erased: map[int]time.Time{0: time.Now()}}
	const good = `{"person":{"codehost":{"user_id":105,"codehost_username":"dev-1","bio":"m:cp:105:1:bio",` +
		`"names":["m:np:p_5:4:full_name"],"last_updated":"2026-01-01T00:00:00Z","repo_languages":["Go"],"repos_count":1,` +
		`"repos":[{"repo_id":1,"name":"m:cr:105/1:3:name","language":"Go","updated_at":"2026-01-01",` +
		`"owner":{"avatar_url":"m:cp:105:1:avatar_url"}}]},"network":{"profile_id":"p_5","network_username":"pro-1",` +
		`"headline":"m:np:p_5:4:headline","updated_at":"2026-01-01T00:00:00Z"}}}`
	require.NoError(t, r.check("/v1/person/enrich", []byte(good), time.Now()))
	for was, is := range map[string]string{
		"m:cp:105:1:avatar_url":   "m:cp:105:2:avatar_url", // an owner with another version
		"m:cp:105:1:bio":          "m:cp:106:1:bio",        // another account's text
		"m:cr:105/1:3:name":       "m:cr:106/1:3:name",     // another account's repository
		"m:np:p_5:4:full_name":    "m:np:p_6:4:full_name",  // a name of a profile that is not linked
		`"repo_languages":["Go"]`: `"repo_languages":[]`,   // derived from other repositories
		`"repos_count":1`:         `"repos_count":2`,
		`"dev-1"`:                 `"dev-2"`,
		`"2026-01-01"`:            `"2026-01-02"`,
		`"headline":"m:np:p_5:4:`: `"headline":"m:np:p_5:5:`, // a version that never existed
		"m:np:p_5:4:headline":     "m:np:p_0:4:headline",     // erased
	} {
		bad := strings.ReplaceAll(good, was, is)
		require.NotEqual(t, good, bad, was)
		require.Error(t, r.check("/v1/person/enrich", []byte(bad), time.Now()), "%s as %s", was, is)
	}
	other := strings.NewReplacer(
		`"p_5"`, `"p_6"`, "pro-1", "pro-2", "m:np:p_5:4:headline", "m:np:p_6:4:headline",
	).Replace(good)
	require.ErrorContains(t, r.check("/v1/person/enrich", []byte(other), time.Now()), "were never linked")
}

// checkErased finds text of people whose erasure was effective before the request began.
func (r *propertyReaders) checkErased(raw string, began time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, at := range r.erased {
		if began.Before(at) {
			continue
		}
		er := r.world.erasures[n]
		if er.address != "" && strings.Contains(raw, er.address) {
			return fmt.Errorf("erasure %d was effective at %s, and the address is shown", n, at.Format("15:04:05.000"))
		}
		for _, m := range marksIn(raw) {
			if slices.Contains(er.owners, m.owner()) {
				return fmt.Errorf("erasure %d was effective at %s, and %v is shown", n, at.Format("15:04:05.000"), m)
			}
		}
	}
	return nil
}

// textOf returns all text of a value.
func textOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was read from JSON
	}
	return string(raw)
}

// oneVersion returns the common marker of all texts of a value.
func oneVersion(v any, kind, id string) (mark, error) {
	all := marksIn(textOf(v))
	if id == "" && len(all) > 0 {
		id = all[0].id // an add-on has no profile_id
	}
	for _, m := range all {
		if m.kind != kind || m.id != id {
			return mark{}, fmt.Errorf("a text of %v is in %s %s", m, kind, id)
		}
		if m != all[0] {
			return mark{}, fmt.Errorf("texts of %v and of %v are in one record", all[0], m)
		}
	}
	if len(all) == 0 {
		return mark{}, fmt.Errorf("%s %s has no marker", kind, id)
	}
	return all[0], nil
}

// checkProfile checks one profile of an answer and returns its owner.
func (w *propertyWorld) checkProfile(p map[string]any) (owner string, err error) {
	id, _ := p["profile_id"].(string)
	m, err := oneVersion(p, markedProfile, id)
	if err != nil {
		return "", err
	}
	name, _ := p["username"].(string)
	at, _ := p["last_updated"].(string)
	if name == "" {
		name, _ = p["network_username"].(string)
		at, _ = p["updated_at"].(string)
	}
	if !w.bore[m.owner()][name] {
		return "", fmt.Errorf("%v never had the username %q", m, name)
	}
	if at != "" && !w.versionAt[m][at] { // an add-on has no last_updated
		return "", fmt.Errorf("%v never had the version %q", m, at)
	}
	return m.owner(), nil
}

// checkAccount checks one account of an answer, with its repositories and commits, and returns its owner.
func (w *propertyWorld) checkAccount(a map[string]any) (owner string, err error) {
	number, _ := a["user_id"].(float64)
	id := fmt.Sprintf("%.0f", number)
	rest := map[string]any{}
	for name, v := range a {
		switch name {
		case "repos", "commits", "names", "network_username":
		default:
			rest[name] = v
		}
	}
	m, err := oneVersion(rest, markedAccount, id)
	if err != nil {
		return "", err
	}
	if at, _ := a["last_updated"].(string); !w.versionAt[m][at] {
		return "", fmt.Errorf("%v never had the version %q", m, at)
	}
	owner = m.owner()
	name, _ := a["codehost_username"].(string)
	if name == "" {
		name, _ = a["username"].(string)
	}
	if !w.bore[owner][name] {
		return "", fmt.Errorf("%v never had the username %q", m, name)
	}
	for _, found := range marksIn(textOf(a["names"])) {
		sameRecord := found == m
		ownCommit := found.kind == markedCommit && found.owner() == owner
		linkedProfile := found.kind == markedProfile && w.mayBeOne(owner, found.owner())
		if !sameRecord && !ownCommit && !linkedProfile {
			return "", fmt.Errorf("a name of %v is in %v", found, m)
		}
	}
	if n, _ := a["network_username"].(string); n != "" && !w.mayName(owner, identity.NormalizeUsername(n)) {
		return "", fmt.Errorf("%v never had a link to %q", m, n)
	}
	return owner, w.checkEntries(a, m)
}

// mayName reports whether any version of the records has linked an account to a network username.
func (w *propertyWorld) mayName(account, name string) bool {
	if w.declared[account][name] {
		return true
	}
	for profile := range w.bore {
		if strings.HasPrefix(profile, "np:") && w.bore[profile][name] && w.mayBeOne(account, profile) {
			return true
		}
	}
	return false
}

// checkEntries checks an account's repositories and commits: each has one version, and derived values are derived from
// them.
func (w *propertyWorld) checkEntries(a map[string]any, account mark) error {
	languages := map[string]bool{}
	for _, list := range []struct{ name, kind, id, date string }{
		{"repos", markedRepo, "id", "updated_at"}, {"commits", markedCommit, "sha", "author_date"},
	} {
		entries, _ := a[list.name].([]any)
		if count, _ := a[list.name+"_count"].(float64); int(count) != len(entries) {
			return fmt.Errorf("%d %s, and the count is %v", len(entries), list.name, count)
		}
		seen := map[string]bool{}
		for _, e := range entries {
			entry, _ := e.(map[string]any)
			id := fmt.Sprint(entry[list.id])
			if entry[list.id] == nil {
				id = fmt.Sprint(entry["repo_id"])
			}
			if seen[id] {
				return fmt.Errorf("%s has %s twice", list.name, id)
			}
			seen[id] = true
			if owner := entry["owner"]; owner != nil { // of an enriched repository: it may have the account's avatar_url
				for _, m := range marksIn(textOf(owner)) {
					if m != account {
						return fmt.Errorf("the owner of %s %s has a text of %v, the account is %v", list.name, id, m, account)
					}
				}
				delete(entry, "owner")
			}
			m, err := oneVersion(entry, list.kind, account.id+"/"+id)
			if err != nil {
				return err
			}
			at, _ := entry[list.date].(string)
			known := false
			for version := range w.versionAt[m] {
				known = known || version == at || len(at) == len(time.DateOnly) && strings.HasPrefix(version, at)
			}
			if !known {
				return fmt.Errorf("%v never had the version %q", m, at)
			}
			if l, _ := entry["language"].(string); l != "" {
				languages[l] = true
			}
		}
	}
	if count, served := a["commit_count"].(float64); served {
		if n, _ := a["commits_count"].(float64); n != count {
			return fmt.Errorf("commit_count is %v, and there are %v commits", count, n)
		}
	}
	served, _ := a["repo_languages"].([]any)
	if len(served) != len(languages) {
		return fmt.Errorf("repo_languages are %v, those of the repositories %v", served, languages)
	}
	for _, l := range served {
		if name, _ := l.(string); !languages[name] {
			return fmt.Errorf("repo_languages has %v, the repositories have %v", l, languages)
		}
	}
	return nil
}
