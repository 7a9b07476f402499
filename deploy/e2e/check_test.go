package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"muster/deploy/e2e/internal/oracle"
)

// Concurrent requests: many with one record each, which the API batches, and few with a hundred.
const (
	callers     = 256
	listCallers = 8
)

// maxProblems is the number of problems after which a test stops.
const maxProblems = 8

// checker compares responses with the oracle's.
type checker struct {
	api   *api
	store *oracle.Store
	mail  *mailScan

	hashSeed maphash.Seed
	// verified has the hashes of record bytes that were compared: a record in one shape has the same bytes in every
	// response.
	verified sync.Map
	// present has the field names for must_have, by record.
	present  sync.Map
	compared atomic.Int64
	requests atomic.Int64
	repeated atomic.Int64

	mu       sync.Mutex
	problems []string
}

func newChecker(p *platform, store *oracle.Store) *checker {
	bulk := p.api()
	bulk.bulk = new(atomic.Int64)
	return &checker{api: bulk, store: store, mail: newMailScan(store.Addresses()), hashSeed: maphash.MakeSeed()}
}

// problem records a problem. It returns an error if there are too many.
func (c *checker) problem(format string, args ...any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
	if len(c.problems) >= maxProblems {
		return fmt.Errorf("%d problems, stopping", len(c.problems))
	}
	return nil
}

// check calls do for each job, concurrently, and fails the test with the problems.
func check[T any](t *testing.T, c *checker, callers int, jobs []T, do func(ctx context.Context, job T) error) {
	t.Helper()
	began, requests, compared := time.Now(), c.requests.Load(), c.compared.Load()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(callers)
	for _, job := range jobs {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return do(ctx, job) })
	}
	err := group.Wait()
	c.mu.Lock()
	problems := c.problems
	c.problems = nil
	c.mu.Unlock()
	for _, p := range problems {
		t.Error(p)
	}
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d requests (%d repeated so far), %d records compared in full, %s", c.requests.Load()-requests,
		c.repeated.Load(),
		c.compared.Load()-compared, time.Since(began).Round(time.Millisecond))
}

// record compares a record in a response with the expected one. key identifies the record and its shape, identity is a
// field that identifies its owner.
func (c *checker) record(what, key, identity string, raw []byte, want func() oracle.Object) error {
	if comparedOf > 1 && maphash.String(c.hashSeed, key)%comparedOf != 0 {
		if !bytes.Contains(raw, []byte(identity)) {
			return c.problem("%s (%s): no field %s: %.300s", what, key, identity, raw)
		}
		return nil
	}
	sum := maphash.Bytes(c.hashSeed, raw)
	if v, ok := c.verified.Load(key); ok && v == sum {
		return nil
	}
	got, err := oracle.Decode(raw)
	if err != nil {
		return c.problem("%s: %v", what, err)
	}
	c.compared.Add(1)
	if diff := oracle.Diff(want(), got); diff != "" {
		return c.problem("%s (%s):\n%s", what, key, diff)
	}
	c.verified.Store(key, sum)
	return nil
}

// empty expects {}.
func (c *checker) empty(what string, raw []byte) error {
	if string(raw) != "{}" {
		return c.problem("%s: want {}, got %.300s", what, raw)
	}
	return nil
}

// send sends a request, and retries it with Retry-After: on a busy machine the engine may exceed the timeout.
func (c *checker) send(ctx context.Context, request func() (answer, error)) (answer, error) {
	c.requests.Add(1)
	for attempt := 1; ; attempt++ {
		got, err := request()
		after, asks := got.header["Retry-After"]
		if err != nil || got.status != http.StatusInternalServerError || !asks || attempt == 5 {
			return got, err
		}
		c.repeated.Add(1)
		seconds, err := strconv.Atoi(after[0])
		if err != nil {
			return got, fmt.Errorf("Retry-After: %w", err)
		}
		select {
		case <-ctx.Done():
			return got, context.Cause(ctx)
		case <-time.After(time.Duration(seconds) * time.Second):
		}
	}
}

func (c *checker) post(ctx context.Context, what, path string, body any, into any) ([]byte, error) {
	got, err := c.send(ctx, func() (answer, error) { return c.api.post(ctx, path, body) })
	return c.read(what, got, err, into)
}

func (c *checker) read(what string, got answer, err error, into any) ([]byte, error) {
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if got.status != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d: %.300s", what, got.status, got.body)
	}
	// Duplicate fields are checked where a record is compared.
	if err := json.Unmarshal(got.body, into, jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, fmt.Errorf("%s: %w: %.300s", what, err, got.body)
	}
	return got.body, nil
}

// asked is one identifier with its identity in the truth file, or "" for no match. Without truth, known is false.
type asked struct {
	identifier, identity string
	known                bool
}

// webset is a request of a person webset for several identifiers.
type webset struct {
	identifiers []asked
	addons      []string
	mustHave    []string
}

func (w webset) has(addon string) bool { return slices.Contains(w.addons, addon) }

func (w webset) body(name string) map[string]any {
	ids := make([]string, 0, len(w.identifiers))
	for _, id := range w.identifiers {
		ids = append(ids, id.identifier)
	}
	body := map[string]any{name: ids}
	if len(w.addons) > 0 {
		body["addons"] = w.addons
	}
	if len(w.mustHave) > 0 {
		body["must_have"] = w.mustHave
	}
	return body
}

func (w webset) query(name string) url.Values {
	q := url.Values{name: {w.identifiers[0].identifier}}
	if len(w.addons) > 0 {
		q.Set("addons", strings.Join(w.addons, ","))
	}
	if len(w.mustHave) > 0 {
		q.Set("must_have", strings.Join(w.mustHave, ","))
	}
	return q
}

func (w webset) shape(name string) string { return name + " webset " + strings.Join(w.addons, "+") }

// batches splits identifiers into requests.
func batches(ids []asked, addons ...string) []webset {
	var out []webset
	for chunk := range slices.Chunk(ids, 100) {
		out = append(out, webset{identifiers: chunk, addons: addons})
	}
	return out
}

// ask posts a webset request and returns the records.
func (c *checker) ask(ctx context.Context, name string, w webset) ([]jsontext.Value, error) {
	var records []jsontext.Value
	what := fmt.Sprintf("%s, %d identifiers from %q", w.shape(name), len(w.identifiers), w.identifiers[0].identifier)
	raw, err := c.post(ctx, what, "/v1/webset/"+name+"/person", w.body(name), &records)
	if err != nil {
		return nil, err
	}
	if len(records) != len(w.identifiers) {
		return nil, fmt.Errorf("%s: %d records", what, len(records))
	}
	if name == "network" && !w.has("personal_email") {
		if found := c.mail.find(raw); found != "" {
			return records, c.problem("%s: contains an email address: %q", what, found)
		}
	}
	return records, nil
}

// get requests one record with GET.
func (c *checker) get(ctx context.Context, name string, w webset) (jsontext.Value, error) {
	path := "/v1/webset/" + name + "/person?" + w.query(name).Encode()
	var record jsontext.Value
	got, err := c.send(ctx, func() (answer, error) { return c.api.do(ctx, http.MethodGet, path, nil, nil) })
	raw, err := c.read(path, got, err, &record)
	if err == nil && name == "network" && !w.has("personal_email") {
		if found := c.mail.find(raw); found != "" {
			return record, c.problem("%s: contains an email address: %q", path, found)
		}
	}
	return record, err
}

// one checks a request for one record, with GET and with POST.
func (c *checker) one(ctx context.Context, name string, w webset) error {
	check := c.networkRecord
	if name == "codehost" {
		check = c.codehostRecord
	}
	record, err := c.get(ctx, name, w)
	if err != nil {
		return err
	}
	if err := check(w, 0, record); err != nil {
		return err
	}
	body := w.body(name)
	body[name] = w.identifiers[0].identifier
	if _, err := c.post(ctx, fmt.Sprint(body), "/v1/webset/"+name+"/person", body, &record); err != nil {
		return err
	}
	return check(w, 0, record)
}

// has reports whether a record has a field of a request's must_have.
func (c *checker) has(w webset, key string, names func() map[string]bool) bool {
	if len(w.mustHave) == 0 {
		return true
	}
	present, ok := c.present.Load(key)
	if !ok {
		present, _ = c.present.LoadOrStore(key, names())
	}
	return slices.ContainsFunc(w.mustHave, func(n string) bool { return present.(map[string]bool)[n] })
}

// network checks a request of the network webset.
func (c *checker) network(ctx context.Context, w webset) error {
	records, err := c.ask(ctx, "network", w)
	if err != nil {
		return err
	}
	for i, raw := range records {
		if err := c.networkRecord(w, i, raw); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) networkRecord(w webset, i int, raw jsontext.Value) error {
	id := w.identifiers[i]
	what := fmt.Sprintf("network %q, must_have %q", id.identifier, w.mustHave)
	p := c.store.Profile(id.identifier)
	if id.known && profileID(p) != id.identity {
		return c.problem("%s: the oracle has %q, the truth file %q", what, profileID(p), id.identity)
	}
	if p == nil || !c.has(w, "network "+p.ID, func() map[string]bool { return c.store.NetworkPresent(p) }) {
		return c.empty(what, raw)
	}
	return c.record(what, w.shape("network")+" of "+p.ID, profileMember(p), raw, func() oracle.Object {
		return c.store.NetworkWebset(p,
			oracle.NetworkOptions{Codehost: w.has("codehost"), PersonalEmail: w.has("personal_email")})
	})
}

// codehost checks a request of the codehost webset.
func (c *checker) codehost(ctx context.Context, w webset) error {
	records, err := c.ask(ctx, "codehost", w)
	if err != nil {
		return err
	}
	for i, raw := range records {
		if err := c.codehostRecord(w, i, raw); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) codehostRecord(w webset, i int, raw jsontext.Value) error {
	id := w.identifiers[i]
	what := fmt.Sprintf("codehost %q, must_have %q", id.identifier, w.mustHave)
	a := c.store.AccountOrID(id.identifier)
	if id.known && accountID(a) != id.identity && !c.store.IsOrganization(id.identity) {
		return c.problem("%s: the oracle has %q, the truth file %q", what, accountID(a), id.identity)
	}
	if a == nil || !c.has(w, "codehost "+accountID(a), func() map[string]bool { return c.store.CodehostPresent(a) }) {
		return c.empty(what, raw)
	}
	return c.record(what, w.shape("codehost")+" of "+accountID(a), accountMember(a), raw, func() oracle.Object {
		return c.store.CodehostWebset(a, w.has("network"))
	})
}

func profileMember(p *oracle.Profile) string { return fmt.Sprintf(`"profile_id":%q`, p.ID) }

func accountMember(a *oracle.Account) string { return fmt.Sprintf(`"user_id":%d`, a.ID) }

func profileID(p *oracle.Profile) string {
	if p == nil {
		return ""
	}
	return p.ID
}

func accountID(a *oracle.Account) string {
	if a == nil {
		return ""
	}
	return fmt.Sprint(a.ID)
}

// person checks a person enrichment.
func (c *checker) person(ctx context.Context, r oracle.PersonRequest) error {
	what := fmt.Sprintf("enrich %+v", r)
	var got struct {
		Matched []string                  `json:"websets_matched"`
		Person  map[string]jsontext.Value `json:"person"`
	}
	if _, err := c.post(ctx, what, "/v1/person/enrich", r, &got); err != nil {
		return err
	}
	a, p := c.store.Enrich(r)
	want := []string{}
	if a != nil {
		want = append(want, "codehost")
	}
	if p != nil {
		want = append(want, "network")
	}
	if !slices.Equal(want, got.Matched) || len(want) != len(got.Person) || got.Matched == nil || got.Person == nil {
		return c.problem("%s: want %q, got %q with %d records; the oracle has account %q and profile %q",
			what, want, got.Matched, len(got.Person), accountID(a), profileID(p))
	}
	if a != nil {
		err := c.record(what, "enriched codehost of "+accountID(a), accountMember(a), got.Person["codehost"],
			func() oracle.Object { return c.store.EnrichedCodehost(a) })
		if err != nil {
			return err
		}
	}
	if p != nil {
		return c.record(what, "enriched network of "+p.ID, profileMember(p), got.Person["network"],
			func() oracle.Object { return c.store.EnrichedNetwork(p) })
	}
	return nil
}

// company checks a company enrichment.
func (c *checker) company(ctx context.Context, body map[string]string, want *oracle.Company) error {
	what := fmt.Sprintf("company %v", body)
	var got struct {
		Matched bool           `json:"matched"`
		Company jsontext.Value `json:"company"`
	}
	if _, err := c.post(ctx, what, "/v1/company/enrich", body, &got); err != nil {
		return err
	}
	if want == nil {
		if got.Matched || string(got.Company) != "null" {
			return c.problem("%s: want no match, got %t and %.200s", what, got.Matched, got.Company)
		}
		return nil
	}
	if !got.Matched {
		return c.problem("%s: no match, want company %s", what, want.ID)
	}
	// Headcounts follow minutes later: projector/recount has their tests.
	var company map[string]jsontext.Value
	if err := json.Unmarshal(got.Company, &company); err != nil {
		return c.problem("%s: %v", what, err)
	}
	delete(company, "headcount_by_year")
	raw, err := json.Marshal(company, json.Deterministic(true))
	if err != nil {
		return c.problem("%s: %v", what, err)
	}
	return c.record(what, "company "+want.ID, fmt.Sprintf(`"company_id":%q`, want.ID), raw, want.Render)
}
