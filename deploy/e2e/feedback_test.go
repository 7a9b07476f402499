package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/schemas/event"
)

// Feedback changes nothing until the operator accepts it; then it is a declared link, until other feedback withdraws
// it.
func TestFeedback_AcceptedBecomesLink(t *testing.T) {
	p := start(t, newDataDir(t), "--no-sample")
	people := ingestUnlinkedPeople(t, p, 3)
	api := p.api()
	account := func(i int) string { return strings.ReplaceAll(people[i], "-", "") }
	ref := func(platform, username string) map[string]any {
		return map[string]any{"platform": platform, "username": username}
	}
	give := func(verdict, codehost string, correct any) string {
		t.Helper()
		body := map[string]any{"verdict": verdict,
			"accounts": []any{ref("network", people[0]), ref("codehost", codehost)}}
		if correct != nil {
			body["correct"] = correct
		}
		got, err := api.post(t.Context(), "/v1/feedback", body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, got.status, "%s", got.body)
		return got.header.Get("X-Request-Id")
	}
	var listed []event.Feedback
	listedIs := func(status, id string) bool {
		p.musterJSON(t, &listed, "feedback", "list", "--status", status, "--json")
		return len(listed) > 0 && listed[0].ID == id
	}
	linked := func() string {
		got, err := api.post(t.Context(), "/v1/webset/network/person",
			map[string]any{"network": people[0], "addons": []string{"codehost"}})
		require.NoError(t, err)
		for i := range people {
			if strings.Contains(string(got.body), `"username":"`+account(i)+`"`) {
				return account(i)
			}
		}
		return ""
	}
	linksTo := func(want string) {
		t.Helper()
		eventually(t, time.Minute, func() (bool, string) { return linked() == want, "linked to " + linked() })
	}

	first := give("right", account(1), nil)
	eventually(t, time.Minute, func() (bool, string) { return listedIs("pending", first), "it is not listed" })
	require.Contains(t, p.muster(t, "feedback", "list"), "network:"+people[0]+" codehost:"+account(1))
	require.Empty(t, linked(), "pending feedback is no link")
	require.Contains(t, p.muster(t, "feedback", "accept", first), "1 account-link records were published")
	linksTo(account(1))
	eventually(t, time.Minute, func() (bool, string) { return listedIs("accepted", first), "it is not accepted" })
	require.Contains(t, p.muster(t, "feedback", "accept", first), "already accepted")

	second := give("correction", account(1), ref("codehost", account(2)))
	eventually(t, time.Minute, func() (bool, string) { return listedIs("pending", second), "it is not listed" })
	require.Contains(t, p.muster(t, "feedback", "accept", second), "2 account-link records were published")
	linksTo(account(2))

	third := give("wrong", account(2), nil)
	eventually(t, time.Minute, func() (bool, string) { return listedIs("pending", third), "it is not listed" })
	p.muster(t, "feedback", "reject", third)
	eventually(t, time.Minute, func() (bool, string) { return listedIs("rejected", third), "it is not rejected" })
	require.Equal(t, account(2), linked())

	// Erased with the person.
	p.muster(t, "erase", "codehost_username="+account(2))
	eventually(t, 2*time.Minute, func() (bool, string) {
		listedIs("all", "")
		return len(listed) == 1, "feedback that names the person is still there"
	})
	require.Equal(t, first, listed[0].ID)
	p.stop(t)
}
