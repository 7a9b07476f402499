package queryapi_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	queryapi "muster/query-api"
	"muster/schemas/event"
)

// accountsOn opens the empty accounts of a broker.
func accountsOn(t *testing.T) *queryapi.Accounts {
	t.Helper()
	return openAccounts(t, accountTopic(t))
}

// accountTopic starts a broker with an empty topic of accounts.
func accountTopic(t *testing.T) bus.Config {
	t.Helper()
	cfg := bus.Config{Brokers: brokertest.Start(t).Addrs(), ClientID: "query-api-test"}
	for _, topic := range event.Topics() {
		if topic.Name == event.TopicAccount {
			require.NoError(t, bus.EnsureTopics(t.Context(), cfg, []bus.Topic{{
				Name: topic.Name, Partitions: topic.Partitions, Replication: 1, Config: topic.Config(),
			}}))
		}
	}
	return cfg
}

func accountsFile(t *testing.T, text string) queryapi.AccountsFile {
	t.Helper()
	f, err := queryapi.ReadAccountsFile([]byte(text))
	require.NoError(t, err)
	return f
}

func TestChangePlan_KeepsNumbersThatAreNotSet(t *testing.T) {
	a := accountsOn(t)
	apply := func(text string) {
		t.Helper()
		_, err := a.Apply(t.Context(), accountsFile(t, text))
		require.NoError(t, err)
	}
	apply(`
plans: {growth: {requests_per_minute: 600, monthly_requests: 100000, credits: 50000, prices: {discover: 2}}}
organizations: [{name: Example Ltd, plan: growth}]`)
	id := a.Organizations()[0].ID
	limits := event.Limits{RequestsPerMinute: 600, MonthlyRequests: 100_000, Credits: 50_000,
		Prices: event.DefaultLimits().Prices}
	limits.Prices.Discover = 2
	holds := func(plan string) {
		t.Helper()
		o, err := a.Organization(id)
		require.NoError(t, err)
		require.Equal(t, plan, o.Plan)
		require.Equal(t, limits, o.LimitsOf())
	}
	change := func(plan string, rpm, monthly, credits int64) {
		t.Helper()
		_, err := a.ChangePlan(t.Context(), id, plan, rpm, monthly, credits)
		require.NoError(t, err)
	}

	change("growth", -1, -1, 80_000)
	limits.Credits = 80_000
	holds("growth")
	change("growth", 5, -1, -1)
	limits.RequestsPerMinute = 5
	holds("growth")
	change("growth", -1, -1, -1)
	holds("growth")

	// An unknown plan name needs every number, so that no default is a surprise.
	_, err := a.ChangePlan(t.Context(), id, "small", 1000, -1, 7)
	require.ErrorContains(t, err, "give its three numbers")
	holds("growth")
	change("small", 1000, 0, 7)
	limits.RequestsPerMinute, limits.MonthlyRequests, limits.Credits = 1000, 0, 7
	holds("small")

	// A built-in plan brings its own numbers and prices.
	change("default", -1, 20_000, -1)
	limits = event.DefaultLimits()
	limits.MonthlyRequests = 20_000
	holds("default")
	change("", 60, -1, -1)
	limits.RequestsPerMinute = 60
	holds("default")
	change("development", -1, -1, -1)
	limits, _ = event.PlanLimits("development")
	holds("development")

	_, err = a.ChangePlan(t.Context(), id, "development", 0, -1, -1)
	require.ErrorContains(t, err, "requests_per_minute is 0")
	_, err = a.ChangePlan(t.Context(), "missing", "default", -1, -1, -1)
	require.ErrorIs(t, err, queryapi.ErrNoSuchAccount)
	holds("development")
}

func TestReadAccountsFile_RejectsOtherPriceOfSearch(t *testing.T) {
	for _, price := range []string{"0", "2"} {
		_, err := queryapi.ReadAccountsFile([]byte("plans: {growth: {prices: {discover: 2, search: " + price + "}}}"))
		require.ErrorContains(t, err, "plans.growth: the price of search cannot be "+price)
	}
	_, err := queryapi.ReadAccountsFile([]byte("plans: {growth: {prices: {discover: 2, search: 1}}}"))
	require.NoError(t, err)
	// A plan of an earlier version counts as 1.
	limits := event.DefaultLimits()
	limits.Prices.Search, limits.Prices.Discover = 2, 2
	o := event.Organization{ID: "o", Name: "Example Ltd", CreatedAt: time.Now(), Plan: "growth", Limits: &limits}
	require.NoError(t, o.Validate())
	require.Equal(t, int64(1), o.LimitsOf().Prices.Search)
	require.Equal(t, int64(2), o.LimitsOf().Prices.Discover)
}

func TestApply_RevokesBothKeysOfARotation(t *testing.T) {
	a := accountsOn(t)
	apply := func(key string) []queryapi.Applied {
		t.Helper()
		done, err := a.Apply(t.Context(),
			accountsFile(t, "organizations: [{name: Acme, keys: [{name: other}, "+key+"]}]"))
		require.NoError(t, err)
		return done
	}
	require.Len(t, apply("{name: ci}"), 3)
	id := a.Organizations()[0].ID
	valid := func() (names []string) {
		for _, k := range a.Keys(id) {
			if k.ValidAt(time.Now()) {
				names = append(names, k.Name)
			}
		}
		return names
	}
	for _, grace := range []time.Duration{time.Hour, 0} {
		for _, k := range a.Keys(id) {
			if k.Name == "ci" && k.ValidAt(time.Now()) {
				old, _, _, err := a.RotateKey(t.Context(), k.ID, grace)
				require.NoError(t, err)
				require.Equal(t, grace == 0, !old.RevokedAt.IsZero(), "without a grace period it is revoked")
			}
		}
		require.Empty(t, apply("{name: ci}"), "it is there")
		apply("{name: ci, revoked: true}")
		require.Equal(t, []string{"other"}, valid(), grace)
		require.Empty(t, apply("{name: ci, revoked: true}"))
		require.Len(t, apply("{name: ci}"), 1, "a new key can reuse the name of a revoked one")
	}
}

func TestApply_UpdatesScopesAndExpiryOfKeys(t *testing.T) {
	a := accountsOn(t)
	apply := func(key string) []queryapi.Applied {
		t.Helper()
		done, err := a.Apply(t.Context(), accountsFile(t, "organizations: [{name: Acme, keys: [{name: ci"+key+"}]}]"))
		require.NoError(t, err)
		return done
	}
	apply("")
	id := a.Organizations()[0].ID
	require.ElementsMatch(t, event.DefaultScopes(), a.Keys(id)[0].Scopes)

	done := apply(", scopes: [usage, enrich]")
	require.Len(t, done, 1)
	require.Contains(t, done[0].Change, "scopes enrich, usage")
	require.Empty(t, done[0].Key, "no key was generated")
	require.Equal(t, []string{"enrich", "usage"}, a.Keys(id)[0].Scopes)
	require.Empty(t, apply(", scopes: [enrich, usage, enrich]"))
	require.Empty(t, apply(""), "omitted values stay")

	// The replaced key gets the narrower scopes, too, but its grace period is not extended.
	old, _, _, err := a.RotateKey(t.Context(), a.Keys(id)[0].ID, time.Hour)
	require.NoError(t, err)
	const expiry = ", scopes: [usage], expires_at: 2999-01-01T00:00:00Z"
	require.Len(t, apply(expiry), 2)
	require.Empty(t, apply(expiry))
	for _, k := range a.Keys(id) {
		require.Equal(t, []string{"usage"}, k.Scopes)
		if k.ID == old.ID {
			require.Equal(t, old.ExpiresAt, k.ExpiresAt)
		} else {
			require.Equal(t, time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC), k.ExpiresAt)
		}
	}
	require.Len(t, apply(", expires_at: 2020-01-01T00:00:00Z"), 2)
	for _, k := range a.Keys(id) {
		require.False(t, k.ValidAt(time.Now()))
	}
}

func TestApply_NeedsIDIfNameIsAmbiguous(t *testing.T) {
	a := accountsOn(t)
	first, err := a.CreateOrganization(t.Context(), "Example Ltd", "")
	require.NoError(t, err)
	require.Equal(t, []event.Organization{first}, a.OrganizationsNamed(" Example Ltd "))
	done, err := a.Apply(t.Context(), accountsFile(t, `organizations: [{name: " Example Ltd ", plan: development}]`))
	require.NoError(t, err)
	require.Len(t, done, 1)
	require.Equal(t, first.ID, done[0].OrganizationID, "surrounding spaces are trimmed")

	second, err := a.CreateOrganization(t.Context(), "Example Ltd", "")
	require.NoError(t, err)
	done, err = a.Apply(t.Context(),
		accountsFile(t, "organizations: [{name: New}, {name: Example Ltd, active: false}]"))
	require.ErrorContains(t, err, first.ID+", "+second.ID)
	require.Empty(t, done)
	require.Len(t, a.Organizations(), 2, "an ambiguous file changes nothing")

	file := "organizations: [{name: Example Ltd, id: " + second.ID + ", active: false}, {name: Example Ltd, id: " +
		first.ID + "}]"
	done, err = a.Apply(t.Context(), accountsFile(t, file))
	require.NoError(t, err)
	require.Len(t, done, 1)
	require.Equal(t, second.ID, done[0].OrganizationID)
	_, err = a.Apply(t.Context(), accountsFile(t, "organizations: [{name: Other, id: "+second.ID+"}]"))
	require.ErrorContains(t, err, "no organization with this name has the ID")
	_, err = queryapi.ReadAccountsFile([]byte("organizations: [{name: New}, {name: New}]"))
	require.ErrorContains(t, err, "duplicate organization")
}

// An empty template variable would otherwise create a key with all scopes or without expiry.
func TestReadAccountsFile_RejectsEmptyScopesAndExpiry(t *testing.T) {
	const noScopes = "organizations[0].keys[0]: scopes is empty: name some of enrich, "
	for key, want := range map[string]string{
		"scopes: []":                   noScopes,
		"scopes: ":                     noScopes,
		"scopes: ~":                    noScopes,
		"scopes: [enrich, everything]": `organizations[0].keys[0]: unknown scope "everything"`,
		"scopes: [~]":                  noScopes,
		"scopes: enrich":               "organizations[0].keys[0]: line 1: scopes must be a list",
		"expires_at: ":                 "organizations[0].keys[0]: expires_at is empty: ",
		"expires_at: soon":             "organizations[0].keys[0]: line 1: expires_at must be a time",
		"scope: [enrich]":              `unknown key "scope": did you mean "scopes"?`,
	} {
		_, err := queryapi.ReadAccountsFile([]byte("organizations: [{name: New, keys: [{name: ci, " + key + "}]}]"))
		require.ErrorContains(t, err, want, key)
	}

	a := accountsOn(t)
	_, err := a.Apply(t.Context(), accountsFile(t, `organizations:
  - name: New
    keys:
      - {name: one, scopes: &some [usage, enrich], expires_at: 2999-01-01T00:00:00Z}
      - {name: two, scopes: *some, expires_at: "2999-01-01T00:00:00Z"}
`))
	require.NoError(t, err)
	keys := a.Keys(a.Organizations()[0].ID)
	require.Len(t, keys, 2)
	for _, k := range keys {
		require.Equal(t, []string{"enrich", "usage"}, k.Scopes)
		require.Equal(t, time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC), k.ExpiresAt)
	}
}

func TestReadAccountsFile_NamesLineAndClosestKey(t *testing.T) {
	for text, want := range map[string][]string{
		"organizations:\n  - name: Typo Ltd\n    keys:\n      - name: laptop\n        scope: [enrich]\n": {
			`line 5: unknown key "scope": did you mean "scopes"?`,
		},
		"organisations: []\n": {`line 1: unknown key "organisations": did you mean "organizations"?`},
		"plans:\n  big:\n    credit: 5\n    monthly_requests: many\norganizations:\n  - nam: X\n": {
			`line 3: unknown key "credit": did you mean "credits"?`, "line 4: monthly_requests must be a whole number",
			`line 6: unknown key "nam": did you mean "name"?`,
		},
		"organizations:\n  name: X\n":                      {"line 2: organizations must be a list"},
		"organizations:\n  - X\n":                          {"line 2: each of organizations must have keys and values"},
		"organizations:\n  - name: X\n    active: maybe\n": {"line 3: active must be true or false"},
		"organizations:\n  - name: [X]\n":                  {"line 2: name must be a string"},
		"organizations:\n  - name: X\n    keys: [{name: k, scopes: " +
			"{a: b}}]\n": {"line 3: scopes must be a list of names"},
		"organizations:\n  - name: X\n    keys: [{name: k, expires_at: " +
			"tomorrow}]\n": {"line 3: expires_at must be a time"},
		"plans: {a: {prices: {search: cheap}}}\n": {"line 1: search must be a whole number"},
		"organizations: [{name: X, keys: &k [{name: a, foo: 1}]}, {name: Y, " +
			"keys: *k}]\n": {`unknown key "foo": known are expires_at, key, name`},
		"- x\n":               {"line 1: the file must have keys and values"},
		"organizations: [\n":  {"line 1"},
		"plans: &p {a: *p}\n": {"accounts file: "},
	} {
		_, err := queryapi.ReadAccountsFile([]byte(text))
		require.Error(t, err, text)
		for _, part := range want {
			require.ErrorContains(t, err, part)
		}
		for _, goName := range []string{"queryapi", "Entry", "int64", "[]string", "time.Time", "yaml.Node"} {
			require.NotContains(t, err.Error(), goName, text)
		}
	}
	f, err := queryapi.ReadAccountsFile([]byte("organizations:\n  - &x {name: X, active: true}\n  - {<<: *x, name: " +
		"Y, plan: }\n"))
	require.NoError(t, err)
	require.Len(t, f.Organizations, 2)
	for _, empty := range []string{"", "# nothing\n", "---\n"} {
		_, err = queryapi.ReadAccountsFile([]byte(empty))
		require.NoError(t, err, empty)
	}
}

// Two replicas that rotate a key at once do not leave two successors. An interrupted rotation does not block the key.
func TestRotateKeyOnce_LeavesOneSuccessorOnTwoReplicas(t *testing.T) {
	cfg := accountTopic(t)
	replicas := []*queryapi.Accounts{openAccounts(t, cfg), openAccounts(t, cfg)}
	o, err := replicas[0].CreateOrganization(t.Context(), "Acme", "")
	require.NoError(t, err)
	known := func(a *queryapi.Accounts, id string) bool {
		return slices.ContainsFunc(a.Keys(o.ID), func(k event.Key) bool { return k.ID == id })
	}
	for range 10 {
		k, _, err := replicas[0].CreateKey(t.Context(), o.ID, queryapi.KeyOptions{})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return known(replicas[1], k.ID) }, time.Minute, time.Millisecond)
		var wg sync.WaitGroup
		var created [2]event.Key
		var errs [2]error
		for i, a := range replicas {
			wg.Go(func() { _, created[i], _, errs[i] = a.RotateKeyOnce(t.Context(), k.ID, time.Hour) })
		}
		wg.Wait()
		var winners []string
		for i, err := range errs {
			if err == nil {
				winners = append(winners, created[i].ID)
			} else {
				require.ErrorContains(t, err, "another call rotates this key")
			}
		}
		require.LessOrEqual(t, len(winners), 1)
		if len(winners) == 0 { // Both have seen the other's key, and revoked their own one.
			require.Eventually(t, func() bool {
				_, again, _, err := replicas[0].RotateKeyOnce(t.Context(), k.ID, time.Hour)
				winners = append(winners, again.ID)
				return err == nil
			}, time.Minute, 10*time.Millisecond)
			winners = winners[len(winners)-1:]
		}
		// The last change of either replica is read by a new one.
		var valid []string
		for _, key := range openAccounts(t, cfg).Keys(o.ID) {
			if key.Replaces == k.ID && key.ValidAt(time.Now()) {
				valid = append(valid, key.ID)
			}
			if key.ID == k.ID {
				require.Equal(t, winners[0], key.ReplacedBy)
			}
		}
		require.Equal(t, winners, valid)
	}
}

// The operator can rotate a key again whose successor is lost, immediately; with the API it is possible once.
func TestRotateKey_RepeatsForLostSuccessor(t *testing.T) {
	now := time.Now()
	a, err := queryapi.OpenAccounts(t.Context(), queryapi.AccountsConfig{Bus: accountTopic(t),
		Now: func() time.Time { return now }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	o, err := a.CreateOrganization(t.Context(), "Acme", "")
	require.NoError(t, err)
	k, _, err := a.CreateKey(t.Context(), o.ID, queryapi.KeyOptions{})
	require.NoError(t, err)
	// An interrupted rotation: the new key was created only.
	_, _, err = a.CreateKey(t.Context(), o.ID, queryapi.KeyOptions{Replaces: k.ID})
	require.NoError(t, err)
	now = now.Add(59 * time.Second)
	_, _, _, err = a.RotateKeyOnce(t.Context(), k.ID, time.Hour)
	require.ErrorContains(t, err, "another call rotates this key")
	now = now.Add(2 * time.Second)
	_, _, _, err = a.RotateKeyOnce(t.Context(), k.ID, time.Hour)
	require.NoError(t, err)
	for range 3 {
		now = now.Add(time.Second)
		_, created, _, err := a.RotateKey(t.Context(), k.ID, time.Hour)
		require.NoError(t, err)
		_, _, _, err = a.RotateKeyOnce(t.Context(), k.ID, time.Hour)
		require.ErrorContains(t, err, "another call rotates this key")
		require.Equal(t, k.ID, created.Replaces)
	}
}
