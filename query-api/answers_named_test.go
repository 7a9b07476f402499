package queryapi_test

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/query-api/internal/idempotency"
	"muster/schemas/event"
	"muster/schemas/suppress"
)

// The profile belongs to a record of the person, or names an account of theirs.
func TestIdempotency_StoredContextOfErasedPersonIsDropped(t *testing.T) {
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) { d.Suppressed = set })
	startContextWorker(f, func(task event.ContextTask) *event.Context {
		if string(task.Person) == `"record"` {
			c := complete(aProfile)
			c.Identities = []string{"network-person p1"}
			return c
		}
		return complete(
			`{"full_name":"Juno Abara","network":{"username":"juno"},"custom":{},"confidence":{"full_name":0.97}}`)
	})
	repeated := func(person string) bool {
		t.Helper()
		r := f.do(http.MethodPost, "/v1/context", `{"person":"`+person+`"}`, idempotent(person))
		require.Equal(t, http.StatusOK, r.status, r.body)
		return r.header.Get("Idempotent-Replayed") == "true"
	}
	for _, person := range []string{"record", "name"} {
		require.False(t, repeated(person))
		require.True(t, repeated(person))
	}
	erase(t, set, suppress.ProfileID, "p1")
	require.False(t, repeated("record"))
	require.True(t, repeated("name"))
	erase(t, set, suppress.NetworkUsername, "juno")
	require.False(t, repeated("name"))
}

func TestIdempotency_StoredDiscoveryOfErasedAccountIsDropped(t *testing.T) {
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) { d.Suppressed = set })
	startWorker(f, func(task event.DiscoveryTask) *event.Discovery {
		d := found(task)
		d.Socials = append(d.Socials,
			event.Social{Account: event.Account{Platform: "microblog", Username: "Juno_A"}, Confidence: 0.95})
		return d
	})
	ask := func(body string) (replayed bool, socials int) {
		t.Helper()
		r := f.do(http.MethodPost, "/v1/person/discover", body, idempotent(body))
		return r.header.Get("Idempotent-Replayed") == "true", len(r.json()["socials"].([]any))
	}
	want := func(body string, wantReplayed bool, wantSocials int) {
		t.Helper()
		replayed, socials := ask(body)
		require.Equal(t, wantReplayed, replayed)
		require.Equal(t, wantSocials, socials)
	}
	const juno = `{"codehost":"juno","max_age_days":0}`
	want(juno, false, 3)
	want(juno, true, 3)
	erase(t, set, suppress.MicroblogUsername, "juno_a")
	want(juno, false, 2)
	want(juno, true, 2)
	erase(t, set, suppress.ProfileID, "p1")
	want(juno, false, 1)
	erase(t, set, suppress.CodehostUsername, "juno")
	// Only the input account remains.
	want(juno, true, 1)
}

// Earlier versions stored responses without their endpoint.
func TestIdempotency_AnswersWithoutEndpointAreCheckedByBody(t *testing.T) {
	var cfg queryapi.Config
	var deps queryapi.Deps
	f := start(t, func(c *queryapi.Config, d *queryapi.Deps) { cfg, deps = *c, *d })
	startContextWorker(f, func(event.ContextTask) *event.Context { return complete(aProfile) })
	startWorker(f, found)
	cfg.DataDir, deps.Registerer = t.TempDir(), nil
	deps.Suppressed = suppress.NewSet(suppress.NoKey())
	deps.Suppressed.Loaded()

	disk, err := idempotency.OpenDisk(idempotency.DiskConfig{Dir: filepath.Join(cfg.DataDir, "answers")})
	require.NoError(t, err)
	sealing, err := testSecret(t).Key("idempotent-answers", idempotency.KeyBytes)
	require.NoError(t, err)
	answers, err := idempotency.NewAnswers(disk, sealing)
	require.NoError(t, err)
	const person, asked = `{"person":"x"}`, `{"codehost":"lin"}`
	bodies := map[string]string{
		"/v1/context": `{"full_name":"Juno Abara","network":{"username":"juno"},"custom":{},"confidence":{"full_name":0.97}}`,
		"/v1/person/discover": `{"socials":[{"platform":"codehost","username":"lin",` +
			`"link":"https://codehost.example/lin","confidence":1,"context":null},{"platform":"microblog",` +
			`"username":"juno_a","link":"https://microblog.example/juno_a","confidence":0.95,"context":null}]}`,
	}
	for path, sent := range map[string]string{"/v1/context": person, "/v1/person/discover": asked} {
		state, _, claim, err := answers.Begin(t.Context(), idempotency.Call{
			Organization: f.organization.ID, Method: http.MethodPost, Path: path, Key: "k", Body: []byte(sent),
			Owner: "old", Lease: time.Minute,
		})
		require.NoError(t, err)
		require.Equal(t, idempotency.New, state)
		require.True(t, jsontext.Value(bodies[path]).IsValid())
		require.NoError(t, claim.Complete(t.Context(),
			idempotency.Answer{Status: 200, ContentType: "application/json", Body: []byte(bodies[path])}))
	}
	require.NoError(t, disk.Close())

	other := *f
	other.service, err = queryapi.New(t.Context(), cfg, deps)
	require.NoError(t, err)
	run(t, other.service)
	again := func(path, sent string) bool {
		t.Helper()
		r := other.do(http.MethodPost, path, sent, idempotent("k"))
		require.Equal(t, http.StatusOK, r.status, r.body)
		return r.header.Get("Idempotent-Replayed") == "true"
	}
	require.True(t, again("/v1/context", person))
	require.True(t, again("/v1/person/discover", asked))
	erase(t, deps.Suppressed, suppress.NetworkUsername, "juno")
	require.False(t, again("/v1/context", person))
	require.True(t, again("/v1/person/discover", asked))
	erase(t, deps.Suppressed, suppress.MicroblogUsername, "juno_a")
	require.False(t, again("/v1/person/discover", asked))
}
