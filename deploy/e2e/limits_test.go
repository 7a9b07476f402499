package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/platform/clickhouse"
)

// account is the output of `muster account ... --json`.
type account struct {
	OrganizationID string `json:"organization_id"`
	Key            string `json:"key"`
	Plan           string `json:"plan"`
	Limits         struct {
		RequestsPerMinute int64 `json:"requests_per_minute"`
		MonthlyRequests   int64 `json:"monthly_requests"`
		Credits           int64 `json:"credits"`
	} `json:"limits"`
	Usage *struct {
		Requests int64 `json:"requests"`
		Credits  int64 `json:"credits"`
	} `json:"usage"`
	Keys []struct {
		ID         string    `json:"id"`
		LastUsedAt time.Time `json:"last_used_at"`
	} `json:"keys"`
	History []struct {
		What string `json:"what"`
	} `json:"history"`
}

// reconciliation is the output of `muster account reconcile --json`.
type reconciliation struct {
	Ledger struct {
		Calls   int64 `json:"calls"`
		Credits int64 `json:"credits"`
	} `json:"ledger"`
	Seen *struct {
		Credits int64 `json:"credits"`
	} `json:"observed"`
	Unanswered     int64    `json:"unanswered"`
	Different      int64    `json:"different"`
	Differences    []string `json:"differences"`
	Unseen         int64    `json:"unseen"`
	InCallersFavor int64    `json:"in_callers_favor"`
}

// seen collects the charges that callers saw.
type seen struct {
	mu    sync.Mutex
	lines []string
	total int64
}

func (s *seen) add(a answer) {
	n, err := strconv.ParseInt(a.header.Get("X-Credits-Charged"), 10, 64)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(`{"request_id":%q,"credits":%d}`, a.header.Get("X-Request-Id"), n))
	s.total += n
}

func (s *seen) write(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seen.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(s.lines, "\n")+"\n"), 0o600))
	return path
}

// redisEnv is the URL of an empty Redis server for [TestCharges_AgreeAcrossKills], killsEnv the number of kills in long
// mode.
const (
	redisEnv = "MUSTER_TEST_REDIS"
	killsEnv = "MUSTER_TEST_KILLS"
)

// A query-api is killed at random points while it is called. Then the ledger and its read model are compared with what
// callers saw, call by call: they are equal, or differ in favor of callers. With a Redis server
// (MUSTER_TEST_REDIS=redis://...) it is one of three replicas that share it; the others keep running.
func TestCharges_AgreeAcrossKills(t *testing.T) {
	t.Parallel()
	kills := number(t, killsEnv, 200)
	if testing.Short() {
		kills = 6
	}
	rng := rand.New(rand.NewPCG(seed(t), 9))
	p := start(t, t.TempDir(), "--sample", "200")
	usernames := p.usernames(t)
	var a account
	p.musterJSON(t, &a, "account", "create", "Killed", "--plan", "killed", "--rpm", "6000000", "--monthly-requests",
		"10000000", "--credits", "10000000", "--json")

	replicas := []*replica{newReplica(t, p)}
	if url := os.Getenv(redisEnv); url != "" {
		replicas = append(replicas, newReplica(t, p), newReplica(t, p))
		for _, r := range replicas {
			r.env = []string{"REDIS_URL=" + url}
		}
	}
	runAll := func() {
		for _, r := range replicas {
			if !r.running() {
				r.run(t, a.Key)
			}
		}
	}
	var saw seen
	for range kills {
		runAll()
		victim := replicas[rng.IntN(len(replicas))]
		var callers sync.WaitGroup
		var ending atomic.Bool // callers stop only after recording their last response
		answered := make(chan struct{}, 1)
		for i := range 8 * len(replicas) {
			r := replicas[i%len(replicas)]
			caller := &api{base: r.base, key: a.Key, client: newClient()}
			order := rng.Perm(len(usernames))
			callers.Go(func() {
				defer caller.client.CloseIdleConnections()
				for i := 0; !ending.Load(); i++ {
					got, err := caller.post(t.Context(), "/v1/person/enrich",
						map[string]any{"codehost": usernames[order[i%len(order)]]})
					if err != nil {
						return // it was killed
					}
					if got.status == 200 {
						saw.add(got)
						if r == victim {
							select {
							case answered <- struct{}{}:
							default:
							}
						}
					}
				}
			})
		}
		select {
		case <-answered:
		case <-time.After(time.Minute):
			t.Fatal("no responses")
		}
		<-time.After(time.Duration(rng.IntN(60_000)) * time.Microsecond)
		victim.kill()
		ending.Store(true)
		callers.Wait()
	}
	// The next process publishes the events left by the killed one.
	runAll()
	require.NotZero(t, saw.total)

	path := saw.write(t)
	var r reconciliation
	eventually(t, time.Minute, func() (bool, string) {
		got, err := muster(t.Context(), p.dataDir, "account", "reconcile", "--json", "--organization", a.OrganizationID,
			"--observed", path)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal([]byte(got.out), &r), got.out+got.errors)
		return r.Different == 0, strings.Join(r.Differences, "\n")
	})
	t.Logf("%d kills: callers saw %d credits, the ledger has %d, %d calls unanswered, %d charges that only callers "+
		"saw, %d that none did",
		kills, r.Seen.Credits, r.Ledger.Credits, r.Unanswered, r.InCallersFavor, r.Unseen)
	require.LessOrEqual(t, r.Ledger.Credits, r.Seen.Credits)
	require.LessOrEqual(t, r.Seen.Credits-r.Ledger.Credits, int64(8*kills), "credits in flight")

	// The balances of the replicas equal those of the ledger.
	for _, replica := range replicas {
		got, err := (&api{base: replica.base, key: a.Key, client: newClient()}).do(t.Context(), "GET",
			"/v1/usage", nil, nil)
		require.NoError(t, err)
		var u struct {
			Credits struct {
				Used int64 `json:"used"`
			} `json:"credits"`
		}
		require.NoError(t, json.Unmarshal(got.body, &u), string(got.body))
		require.Equal(t, r.Ledger.Credits, u.Credits.Used)
		replica.kill()
	}

	var shown account
	p.musterJSON(t, &shown, "account", "show", a.OrganizationID, "--json")
	require.Equal(t, r.Ledger.Credits, shown.Usage.Credits)
	require.Equal(t, "killed", shown.Plan)
	require.Equal(t, int64(10000000), shown.Limits.Credits)
	require.WithinDuration(t, time.Now(), shown.Keys[0].LastUsedAt, 10*time.Minute)
	p.stop(t)
}

// usernames returns the usernames of people on the code host.
func (p *platform) usernames(t *testing.T) (names []string) {
	t.Helper()
	conn, err := clickhouse.Open(t.Context(), clickhouse.Config{DSN: p.ClickHouseURL})
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	rows, err := conn.Query(t.Context(),
		"SELECT codehost_username FROM codehost_people FINAL WHERE deleted = 0 AND type != 'Organization'")
	require.NoError(t, err)
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		names = append(names, name)
	}
	require.NoError(t, rows.Close())
	require.NotEmpty(t, names)
	return names
}

// replica is a `muster run query-api` with its own persistent directory, on the servers of a platform.
type replica struct {
	platform *platform
	dir      string
	addr     string
	base     string
	env      []string // in addition to the addresses of the platform
	cmd      *exec.Cmd
	log      output
	ended    chan struct{}
}

func newReplica(t *testing.T, p *platform) *replica {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	r := &replica{platform: p, dir: t.TempDir(), addr: addr, base: "http://" + addr}
	t.Cleanup(r.kill)
	return r
}

// run starts the replica and waits until it accepts the key.
func (r *replica) run(t *testing.T, key string) {
	t.Helper()
	r.cmd = exec.Command(binary, "--data-dir", r.dir, "run", "query-api", "--addr", r.addr, "--admin-addr",
		"127.0.0.1:0")
	r.cmd.Env = append(r.platform.serviceEnv(t), r.env...)
	r.cmd.Stdout, r.cmd.Stderr = &r.log, &r.log
	r.cmd.SysProcAttr = dieWithParent()
	require.NoError(t, r.cmd.Start())
	ended := make(chan struct{})
	r.ended = ended
	cmd := r.cmd
	go func() {
		_ = cmd.Wait() // killed
		close(ended)
	}()
	caller := &api{base: r.base, key: key, client: newClient()}
	defer caller.client.CloseIdleConnections()
	eventually(t, time.Minute, func() (bool, string) {
		select {
		case <-ended:
			t.Fatalf("the replica exited: %s", lastLines(r.log.String(), 20))
		default:
		}
		got, err := caller.do(t.Context(), "GET", "/v1/usage", nil, nil)
		return err == nil && got.status == 200, "the replica does not respond: " + lastLines(r.log.String(), 10)
	})
}

func (r *replica) running() bool { return r.cmd != nil }

func (r *replica) kill() {
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Kill()
	<-r.ended
	r.cmd = nil
}
