package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	queryapi "muster/query-api"
	"muster/schemas/record"
	"muster/schemas/sampledata"
)

// The load of part freshness, and its observers.
const (
	freshTick = 20 * time.Millisecond
	// The resolution: 50 ms in the first second, then a twentieth of the elapsed time. Each request costs the engine
	// as much as many records: at 10 ms for ten new records per second, the observers kept it busy, and at a constant
	// interval a backlog of late records grows further.
	freshPoll     = 50 * time.Millisecond
	freshPollPart = 20
	// Time of the first request, since before the write. Earlier visibility counts as this.
	freshFirst = 300 * time.Millisecond
	// One in this number of ticks is observed.
	freshEvery = 50
	// Batching time per partition, as a crawler would configure that writes records one by one to a hundred
	// partitions: with less, nearly each is a request. It is included in the results.
	freshLinger = 100 * time.Millisecond
	// Maximum number of writes in flight; a turn that finds this number waits, and is late.
	freshWrites = 16
)

// measureFreshness publishes records at a constant rate and requests some of them from the API until they are
// visible: the result is the time from before the write to the response. First the records of a crawl of all kinds
// (schemas/sampledata) in random order; then profiles only, which are the largest.
func measureFreshness(ctx context.Context, b *bench, out io.Writer) error {
	return b.serving(ctx, queryapi.Config{Addr: "127.0.0.1:0"}, func(base string) error {
		crawl, err := newCrawlMix(ctx, max(10, b.seconds)*b.rate)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  a crawl: %s\n", crawl.describe())
		people := freshKind{"network people", record.KindNetworkPerson, freshPerson, b.inWebset}
		accounts := freshKind{"code-host accounts", record.KindCodehostPerson, freshAccount, b.inCodehostWebset}
		if err := b.freshLoad(ctx, base, "crawl", crawl.next, []freshKind{people, accounts}, out); err != nil {
			return err
		}
		fmt.Fprintf(out, "  profiles only\n")
		return b.freshLoad(ctx, base, "profiles", nil, []freshKind{people}, out)
	})
}

// freshPrefix is the username prefix of the people that this part publishes; generated data does not have it.
const freshPrefix = "fresh-"

// sayGrown prints a note if this part, which cannot delete what it publishes, has enlarged the data set.
func (b *bench) sayGrown(ctx context.Context, out io.Writer) error {
	var people uint64
	if err := b.conn.QueryRow(ctx,
		`SELECT count() FROM network_people FINAL WHERE deleted = 0 AND startsWith(username, ?)`,
		freshPrefix).Scan(&people); err != nil {
		return fmt.Errorf("count the people of part freshness: %w", err)
	}
	if people > 0 {
		fmt.Fprintf(out,
			"  NOTE: part freshness has published %d people, and other records, to this directory: the results "+
				"below are for a larger, slower data set.\n"+
				"  Do not compare them. A separate directory (-dir) has only the generated data.\n", people)
	}
	return nil
}

// crawlMix returns generated records repeatedly, in a random but reproducible order.
type crawlMix struct {
	messages []kafka.Message
	kinds    map[record.Kind]int
	bytes    int
	at       int
}

// Record implements world.Sink.
func (c *crawlMix) Record(kind string, json []byte) error {
	rec, err := record.Decode(record.Kind(kind), slices.Clone(json))
	if err != nil {
		return fmt.Errorf("decode a generated record: %w", err)
	}
	c.messages = append(c.messages, kafka.Message{Topic: rec.Kind.Topic(), Key: []byte(rec.Key), Value: rec.JSON})
	c.kinds[rec.Kind]++
	c.bytes += len(rec.JSON)
	return nil
}

// Truth implements world.Sink.
func (*crawlMix) Truth([]byte) error { return nil }

// newCrawlMix generates about n records, about ten per person.
func newCrawlMix(ctx context.Context, n int) (*crawlMix, error) {
	c := &crawlMix{kinds: map[record.Kind]int{}}
	const seed = 77 // not the seed of the loaded data
	if err := sampledata.Generate(ctx, sampledata.Options{People: max(1000, n/10), Seed: seed}, c, nil); err != nil {
		return nil, fmt.Errorf("generate a crawl: %w", err)
	}
	shuffle := rand.New(rand.NewPCG(seed, seed))
	shuffle.Shuffle(len(c.messages), func(i, j int) { c.messages[i], c.messages[j] = c.messages[j], c.messages[i] })
	return c, nil
}

func (c *crawlMix) next() kafka.Message {
	m := c.messages[c.at]
	c.at = (c.at + 1) % len(c.messages)
	return m
}

// describe lists the share of each kind.
func (c *crawlMix) describe() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(c.kinds)) {
		parts = append(parts, fmt.Sprintf("%s %.1f%%", kind, 100*float64(c.kinds[kind])/float64(len(c.messages))))
	}
	return fmt.Sprintf("%d different records of %d bytes: %s", len(c.messages), c.bytes/len(c.messages),
		strings.Join(parts, ", "))
}

// freshKind is a kind of records that are observed.
type freshKind struct {
	name    string
	kind    record.Kind
	json    func(username string) []byte // a new record
	visible lookup
}

// message returns a new record.
func (k *freshKind) message(username string) (m kafka.Message, err error) {
	rec, err := record.Decode(k.kind, k.json(username))
	if err != nil {
		return m, fmt.Errorf("decode a generated record: %w", err)
	}
	return kafka.Message{Topic: rec.Kind.Topic(), Key: []byte(rec.Key), Value: rec.JSON}, nil
}

// freshLoad publishes the records of next, or profiles only. Each turn begins with a new record of each kind, which the
// turns whose number is a multiple of freshEvery observe.
func (b *bench) freshLoad(ctx context.Context, base, name string, next func() kafka.Message, kinds []freshKind,
	out io.Writer) (err error) {
	writer := bus.NewWriter(b.kafka, bus.WithBatch(1000, freshLinger))
	defer func() { err = errors.Join(err, writer.Close()) }()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	var mu sync.Mutex
	waited := make([][]time.Duration, len(kinds))
	run := fmt.Sprint(name, "-", time.Now().UnixNano())
	each := b.rate * int(freshTick/time.Millisecond) / 1000
	ticker := time.NewTicker(freshTick)
	defer ticker.Stop()
	ticks := max(10, b.seconds) * int(time.Second/freshTick)
	late, published, size := 0, 0, 0
	writes := make(chan struct{}, freshWrites)
	before, err := b.spentAll()
	if err != nil {
		return err
	}
	batchesBefore, err := b.batches(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	for tick := range ticks {
		select {
		case <-ctx.Done():
			watching.Wait()
			return context.Cause(ctx)
		case <-ticker.C:
		}
		messages := make([]kafka.Message, each)
		username := func(i int) string { return fmt.Sprintf(freshPrefix+"%s-%d-%d", run, tick, i) }
		for i := range messages {
			if i >= len(kinds) && next != nil {
				messages[i] = next()
			} else if messages[i], err = kinds[min(i, len(kinds)-1)].message(username(i)); err != nil {
				return err
			}
			size += len(messages[i].Value)
		}
		start := time.Now()
		select {
		case writes <- struct{}{}:
		default:
			late++
			select {
			case writes <- struct{}{}:
			case <-ctx.Done():
				watching.Wait()
				return context.Cause(ctx)
			}
		}
		published += each
		watching.Go(func() {
			err := bus.WriteAll(ctx, writer, messages)
			<-writes
			if err != nil {
				cancel(err)
				return
			}
			if tick%freshEvery != 0 {
				return
			}
			for i := range kinds {
				watching.Go(func() {
					if err := awaitPerson(ctx, client, kinds[i].visible, base, username(i), start); err != nil {
						cancel(err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					waited[i] = append(waited[i], time.Since(start))
				})
			}
		})
	}
	rate := float64(published) / time.Since(began).Seconds()
	watching.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	after, err := b.spentAll()
	if err != nil {
		return err
	}
	batchesAfter, err := b.batches(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out,
		"  %d records of %d bytes published at %.0f/s (%d of %d writes had to wait for others); %d of each kind observed, "+
			"first after %s, then every %s or a twentieth of the elapsed time\n",
		published, size/published, rate, late, ticks, len(waited[0]), freshFirst, freshPoll)
	for i, w := range waited {
		slices.Sort(w)
		fmt.Fprintf(out, "  published to visible in the API, %s: p50 %.0f ms  p99 %.0f ms  longest %.0f ms\n",
			kinds[i].name, ms(quantile(w, 0.5)), ms(quantile(w, 0.99)), ms(quantile(w, 1)))
	}
	micros := func(i int) float64 { return float64((after[i] - before[i]).Microseconds()) / float64(published) }
	fmt.Fprintf(out,
		"  microseconds of CPU per record: engine %.0f, broker and projector %.0f, publishing, API and observers "+
			"%.0f; %d records per second need %.1f cores\n",
		micros(0), micros(1), micros(2), b.rate, (micros(0)+micros(1)+micros(2))*float64(b.rate)/1e6)
	fmt.Fprintf(out, "  %s\n", batchesAfter.since(batchesBefore))
	return nil
}

// spentAll returns the processor time so far of the engine, of the platform and of this program.
func (b *bench) spentAll() (spent [3]time.Duration, err error) {
	engine, err := b.enginePID()
	if err != nil {
		return spent, err
	}
	for i, pid := range []int{engine, b.process.Process.Pid, os.Getpid()} {
		if spent[i], _, err = process(pid); err != nil {
			return spent, err
		}
	}
	return spent, nil
}

// freshPerson returns a record of typical size.
func freshPerson(name string) []byte {
	return fmt.Appendf(nil,
		`{"profile_id":%[1]q,"last_updated":"2026-11-20T10:00:00Z","username":%[1]q,"full_name":"Fresh Person",`+
			`"first_name":"Fresh","last_name":"Person",`+
			`"headline":"Measures how soon what is published can be read","location":{"city":"Graz",`+
			`"country":"Austria","country_code":"AT"},"connections":500,`+
			`"experience":[{"title":"Engineer","summary":"Kept the platform running and wrote down why it does",`+
			`"start":"2021-03","current":true,"company":{"name":"Acme","company_id":"c_1",`+
			`"network_url":"https://network.example/company/acme"}},`+
			`{"title":"Analyst","summary":"Asked the same question in many ways","start":"2017-09","end":"2021-02",`+
			`"company":{"name":"Example","company_id":"c_2",`+
			`"network_url":"https://network.example/company/example"}}],`+
			`"education":[{"start":"2012","end":"2017","degrees":["BSc"],"majors":["Mathematics"],`+
			`"school":{"name":"University","network_url":"https://network.example/school/university"}}],`+
			`"skills":[{"skill":"patience"},{"skill":"measuring"}],"languages":[{"language":"German",`+
			`"proficiency":"native"}],"emails":["%[1]s@fresh.example"]}`, name)
}

// freshAccount returns a record of typical size. The ID is a hash of the username.
func freshAccount(username string) []byte {
	id := fnv.New64a()
	_, _ = id.Write([]byte(username)) // does not fail
	return fmt.Appendf(nil,
		`{"user_id":%d,"last_updated":"2026-11-20T10:00:00Z","codehost_username":%q,"type":"User",`+
			`"name":"Fresh Account","bio":"Measures how soon what is published can be read","company":"Acme",`+
			`"location":"Graz, Austria","blog":"https://fresh.example","email":"%[2]s@fresh.example","followers":12,`+
			`"following":34,"public_repos":5,"created_at":"2015-04-01T08:00:00Z"}`,
		id.Sum64()>>12, username)
}

// miss reports whether a response of a webset has no record.
func miss(body []byte) bool { return bytes.Equal(body, []byte("{}")) }

// lookup returns the request for a person, and whether a response lacks the person.
type lookup func(ctx context.Context, base, username string) (req *http.Request, miss func(body []byte) bool, err error)

// inWebset looks a person up in the network webset.
func (b *bench) inWebset(
	ctx context.Context, base, username string,
) (req *http.Request, isMiss func(body []byte) bool, err error) {
	return b.getWebset(ctx, base+"/v1/webset/network/person", url.Values{"network": {username}})
}

// inCodehostWebset looks an account up in the code-host webset.
func (b *bench) inCodehostWebset(
	ctx context.Context, base, username string,
) (req *http.Request, isMiss func(body []byte) bool, err error) {
	return b.getWebset(ctx, base+"/v1/webset/codehost/person", url.Values{"codehost": {username}})
}

func (b *bench) getWebset(
	ctx context.Context, address string, query url.Values,
) (req *http.Request, isMiss func(body []byte) bool, err error) {
	req, err = http.NewRequestWithContext(ctx, http.MethodGet, address+"?"+query.Encode(), nil)
	if err == nil {
		req.Header.Set("Authorization", "Bearer "+b.in.APIKey)
	}
	return req, miss, err
}

// awaitPerson requests a person, who was written at start, until the person is visible.
func awaitPerson(
	ctx context.Context, client *http.Client, visible lookup, base, username string, start time.Time,
) error {
	for after := time.Until(start.Add(freshFirst)); ; after = max(freshPoll, time.Since(start)/freshPollPart) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not visible: %w", username, context.Cause(ctx))
		case <-time.After(after):
		}
		req, isMiss, err := visible(ctx, base, username)
		if err != nil {
			return fmt.Errorf("call the API: %w", err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return fmt.Errorf("call the API: %w", err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return fmt.Errorf("call the API: %w", err)
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("call the API: status %s: %s", resp.Status, body)
		}
		if !isMiss(body) {
			return nil
		}
	}
}
