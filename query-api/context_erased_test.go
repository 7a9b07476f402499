package queryapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/suppress"
)

// Also if the replica has it in memory.
func TestContext_ProfileOfErasedPersonIsNotServed(t *testing.T) {
	set := suppress.NewSet(suppress.NoKey())
	set.Loaded()
	f := start(t, func(_ *queryapi.Config, d *queryapi.Deps) { d.Suppressed = set })
	startContextWorker(f, func(task event.ContextTask) *event.Context {
		if string(task.Person) == `"by record"` {
			c := complete(aProfile)
			c.Identities = []string{"codehost-person 7"}
			return c
		}
		return complete(
			`{"full_name":"Juno Abara","personal_email":"juno@abara.example","custom":{},"confidence":{"full_name":0.97}}`)
	})
	ids := make(map[string]string)
	for _, person := range []string{"by e-mail", "by record"} {
		r := f.post("/v1/context", `{"person":"`+person+`"}`)
		require.Equal(t, http.StatusOK, r.status, r.body)
		ids[person] = r.header.Get("X-Request-Id")
		require.Equal(t, http.StatusOK, f.get("/v1/context/"+ids[person]).status)
	}
	erase(t, set, suppress.Email, "juno@abara.example")
	require.Equal(t, http.StatusNotFound, f.get("/v1/context/"+ids["by e-mail"]).status)
	require.Equal(t, http.StatusOK, f.get("/v1/context/"+ids["by record"]).status)
	erase(t, set, suppress.UserID, "7")
	require.Equal(t, http.StatusNotFound, f.get("/v1/context/"+ids["by record"]).status)
}
