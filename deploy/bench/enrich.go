package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"muster/deploy/bench/postgres"
)

const (
	// enrichTurns is the number of turns of each server, which share the duration of a measurement.
	enrichTurns = 2
	// enrichSettle is the pause after muster's turn. Usage events are written 1.5 s after the last call, so that the
	// insert falls into no turn of PostgreSQL.
	enrichSettle = 2500 * time.Millisecond
	// accountSample and networkSample are the maximum numbers of requested accounts and network people, drawn from all.
	// PostgreSQL has these only.
	accountSample = 100_000
	networkSample = 50_000
	// listLength is the number of identifiers in a list, the API's maximum.
	listLength = 100
)

// measureEnrich compares muster with a minimal API over PostgreSQL with the same answers, alternating.
func measureEnrich(ctx context.Context, b *bench, out io.Writer) (err error) {
	if err := b.sayGrown(ctx, out); err != nil {
		return err
	}
	if err := b.mergeReadTables(ctx, out); err != nil {
		return err
	}
	accounts, err := b.strings(ctx, `SELECT codehost_username FROM codehost_people FINAL WHERE deleted = 0`)
	if err != nil {
		return err
	}
	profiles, err := b.strings(ctx, `SELECT username FROM network_people FINAL WHERE deleted = 0`)
	if err != nil {
		return err
	}
	accounts, profiles = drawSample(accounts, accountSample, b.seed), drawSample(profiles, networkSample, b.seed)
	enrich := question{
		about:   "POST /v1/person/enrich by code-host username, both websets",
		request: enrichRequest,
	}
	webset := question{
		about:   "GET /v1/webset/network/person by username, add-ons codehost and personal_email",
		request: websetRequest,
	}
	if enrich.keys, err = b.keepAnswers(ctx, out, postgres.CodehostAnswers, enrich, accounts); err != nil {
		return err
	}
	if webset.keys, err = b.keepAnswers(ctx, out, postgres.NetworkAnswers, webset, profiles); err != nil {
		return err
	}
	beside, err := b.startPostgres(ctx, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, beside.close()) }()
	lists := question{
		about:   fmt.Sprintf("POST /v1/webset/network/person, lists of %d usernames, both add-ons", listLength),
		keys:    webset.keys,
		each:    min(listLength, len(webset.keys)),
		request: listRequest,
	}
	systems := [2]system{
		{name: "muster", base: b.in.BaseURL, used: b.cpu, processes: [2]string{"engine", "program"}, settle: enrichSettle},
		{name: "PostgreSQL", base: beside.base, used: beside.cpu, processes: [2]string{"postgres", "API"}},
	}
	single := []bars{{callers: 1, p50: 8 * time.Millisecond}, {callers: 32, rate: 0.2}, {callers: 256, rate: 0.4, cpu: 600 * time.Microsecond}}
	var failed []error
	for _, c := range []struct {
		question
		bars []bars
	}{
		{enrich, single},
		{webset, single},
		{lists, []bars{{callers: 1}, {callers: 32, rate: 0.2}}},
	} {
		err := b.compareSystems(ctx, out, c.question, systems, c.bars)
		if errors.Is(err, errUnanswered) {
			failed = append(failed, err) // the rest is measured and printed nevertheless
		} else if err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// mergeReadTables merges the tables that enrichment reads, as the engine does five minutes after the last insert.
// PostgreSQL is idle, too.
func (b *bench) mergeReadTables(ctx context.Context, out io.Writer) error {
	began := time.Now()
	for _, table := range []string{"lookups", "network_people", "codehost_answers"} {
		if err := b.conn.Exec(ctx, "OPTIMIZE TABLE "+table+" FINAL"); err != nil {
			return fmt.Errorf("merge %s: %w", table, err)
		}
	}
	fmt.Fprintf(out, "  tables merged in %.1f s, as five minutes after the last insert\n", time.Since(began).Seconds())
	return nil
}

// enrichRequest returns a request for a person by code-host username.
func enrichRequest(ctx context.Context, base string, keys []string) (*http.Request, error) {
	return postJSON(ctx, base+"/v1/person/enrich", map[string]any{"codehost": keys[0], "websets": []string{"codehost", "network"}})
}

// accountRequest returns a request for the account of a code-host username.
func accountRequest(ctx context.Context, base string, keys []string) (*http.Request, error) {
	return postJSON(ctx, base+"/v1/person/enrich", map[string]any{"codehost": keys[0]})
}

// websetRequest returns a request for one network person.
func websetRequest(ctx context.Context, base string, keys []string) (*http.Request, error) {
	q := url.Values{"network": {keys[0]}, "addons": {"codehost,personal_email"}}
	return http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/webset/network/person?"+q.Encode(), nil) //nolint:gosec // a server that the bench has started
}

// listRequest returns a request for a list of network people.
func listRequest(ctx context.Context, base string, keys []string) (*http.Request, error) {
	return postJSON(ctx, base+"/v1/webset/network/person", map[string]any{"network": keys, "addons": []string{"codehost", "personal_email"}})
}

func postJSON(ctx context.Context, target string, value any) (*http.Request, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body)) //nolint:gosec // see above
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}

// drawSample returns at most n of the names. It is deterministic.
func drawSample(names []string, n int, seed uint64) []string {
	slices.Sort(names)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:min(n, len(names))]
}

// system is a measured server with its processes.
type system struct {
	name, base string
	// used returns the resource usage of the processes: usage.engine and usage.platform are those named by processes.
	used      func() (usage, error)
	processes [2]string
	settle    time.Duration // pause after a turn
}

// bars are the required results at a number of callers; 0 means no requirement.
type bars struct {
	callers  int
	rate     float64       // minimum calls per second, relative to PostgreSQL
	p50, cpu time.Duration // maximum per call
}

// errUnanswered reports calls that failed, returned other people, or did not complete.
var errUnanswered = errors.New("some calls were not answered")

// compareSystems measures two systems alternately and prints the results, and whether the bars are met; a missed bar is
// not an error. It returns errUnanswered after printing if a call failed or missed, or none completed.
func (b *bench) compareSystems(ctx context.Context, out io.Writer, q question, systems [2]system, all []bars) error {
	turn := *b
	turn.seconds = max(1, b.seconds/enrichTurns)
	fmt.Fprintf(out, "\n  %s; %d keys, drawn uniformly, no result cache; %d turns of %d s each\n", q.about, len(q.keys), enrichTurns, turn.seconds)
	var failed []error
	for _, bar := range all {
		var sums [2]measurement
		for t := range enrichTurns {
			turn.draw = uint64(t) // both get the same requests
			for i, s := range systems {
				m, err := turn.measure(ctx, q, s, bar.callers)
				if err != nil {
					return fmt.Errorf("%s, callers %d: %w", s.name, bar.callers, err)
				}
				sums[i].addTurn(m)
				pause(ctx, s.settle)
			}
		}
		for i, s := range systems {
			slices.Sort(sums[i].calls)
			fmt.Fprintf(out, "  %s\n", describeSystem(s, bar.callers, sums[i]))
			if err := sums[i].unanswered(); err != nil {
				failed = append(failed, fmt.Errorf("%s, callers %d: %w", s.name, bar.callers, err))
			}
		}
		fmt.Fprintf(out, "  %12s  %s\n", "", bar.judge(sums))
	}
	return errors.Join(failed...)
}

// describeSystem formats the result of a system.
func describeSystem(s system, callers int, m measurement) string {
	if len(m.calls) == 0 {
		return fmt.Sprintf("callers %4d  %-10s no call completed  %d errors, %d misses", callers, s.name, m.errors, m.misses)
	}
	return fmt.Sprintf("callers %4d  %-10s %8.1f calls/s  p50 %8.2f ms  p99 %8.2f ms  CPU ms a call %7.3f (%s %.3f, %s %.3f)  %d errors, %d misses",
		callers, s.name, m.callRate(), ms(quantile(m.calls, 0.5)), ms(quantile(m.calls, 0.99)), ms(m.cpuPerCall()),
		s.processes[0], ms(m.perCall(m.engine)), s.processes[1], ms(m.perCall(m.platform)), m.errors, m.misses)
}

// judge compares the first measurement with the second and with the bars.
func (b bars) judge(m [2]measurement) string {
	verdict := func(met bool) string {
		if met {
			return "met"
		}
		return "missed"
	}
	if len(m[0].calls) == 0 || len(m[1].calls) == 0 {
		return "no ratio: one system completed no call"
	}
	rate := m[0].callRate() / m[1].callRate()
	text := fmt.Sprintf("ratio: %.3f of PostgreSQL's calls a second", rate)
	if b.rate > 0 {
		text += fmt.Sprintf(" (bar: at least %g): %s", b.rate, verdict(rate >= b.rate))
	}
	p50 := quantile(m[0].calls, 0.5)
	text += fmt.Sprintf("; p50 %.1f times", ratio(p50, quantile(m[1].calls, 0.5)))
	if b.p50 > 0 {
		text += fmt.Sprintf(", %.2f ms (bar: at most %g ms): %s", ms(p50), ms(b.p50), verdict(p50 <= b.p50))
	}
	cpu := m[0].cpuPerCall()
	text += fmt.Sprintf("; CPU %.1f times", ratio(cpu, m[1].cpuPerCall()))
	if b.cpu > 0 {
		text += fmt.Sprintf(", %.3f ms (bar: at most %g ms): %s", ms(cpu), ms(b.cpu), verdict(cpu <= b.cpu))
	}
	return text
}
