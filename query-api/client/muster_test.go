package client_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"muster/query-api/client"
)

// asked is a server that records requests and returns prepared responses.
func asked(t *testing.T, answers ...http.HandlerFunc) (*httptest.Server, *[]*http.Request, *[]string) {
	t.Helper()
	var requests []*http.Request
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		requests, bodies = append(requests, r), append(bodies, string(body))
		answers[min(len(requests), len(answers))-1](w, r)
	}))
	t.Cleanup(server.Close)
	return server, &requests, &bodies
}

func says(status int, retryAfter, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", "r1")
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

const noMatch = `{"websets_matched":[],"person":{}}`

func TestRetries(t *testing.T) {
	for name, tc := range map[string]struct {
		options client.Options
		answers []http.HandlerFunc
		calls   int
		status  int
	}{
		"a rate": {answers: []http.HandlerFunc{says(429, "0", `{"detail":"slower"}`),
			says(200, "", noMatch)}, calls: 2, status: 200},
		"a second": {answers: []http.HandlerFunc{says(503, "1", `{"detail":"away"}`),
			says(200, "", noMatch)}, calls: 2, status: 200},
		"a broken connection": {answers: []http.HandlerFunc{breaks, says(200, "", noMatch)}, calls: 2,
			status: 200},
		"one that still runs": {answers: []http.HandlerFunc{breaks, says(409, "0", `{"detail":"running"}`),
			says(200, "", noMatch)}, calls: 3, status: 200},
		"next month": {answers: []http.HandlerFunc{says(429, "864000", `{"detail":"no credits"}`)},
			calls: 1, status: 429},
		"invalid": {answers: []http.HandlerFunc{says(422, "0", `{"detail":"wrong"}`)}, calls: 1,
			status: 422},
		"unexpected": {answers: []http.HandlerFunc{says(500, "", `{"detail":"oh"}`)}, calls: 1,
			status: 500},
		"an end": {answers: []http.HandlerFunc{says(503, "0", `{"detail":"away"}`)}, calls: 5,
			status: 503},
		"none": {options: client.Options{Retries: -1},
			answers: []http.HandlerFunc{says(503, "0", `{"detail":"away"}`)}, calls: 1, status: 503},
		"a wait that is not a number": {answers: []http.HandlerFunc{says(503, "soon", `{"detail":"away"}`)}, calls: 1,
			status: 503},
		"a wait longer than allowed": {options: client.Options{MaxWait: time.Second},
			answers: []http.HandlerFunc{says(503, "2", `{"detail":"away"}`)}, calls: 1, status: 503},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, requests, bodies := asked(t, tc.answers...)
			api, err := client.New(server.URL, "mk_live_x", tc.options)
			require.NoError(t, err)
			username := "octavia"
			got, err := api.EnrichPersonWithResponse(t.Context(), nil, client.PersonEnrichRequest{Codehost: &username})
			require.NoError(t, err)
			require.Equal(t, tc.status, got.StatusCode())
			require.Len(t, *requests, tc.calls)
			for i, r := range *requests {
				require.Equal(t, "Bearer mk_live_x", r.Header.Get("Authorization"))
				require.NotEmpty(t, r.Header.Get("Idempotency-Key"))
				require.Equal(t, (*requests)[0].Header.Get("Idempotency-Key"), r.Header.Get("Idempotency-Key"),
					"one key for all")
				require.Equal(t, `{"codehost":"octavia"}`, strings.TrimSpace((*bodies)[i]))
			}
			var problem *client.APIError
			if tc.status != 200 {
				require.ErrorAs(t, client.AsError(got.HTTPResponse, got.Body), &problem)
				require.Equal(t, tc.status, problem.Status)
				require.Equal(t, "r1", problem.RequestID)
			}
		})
	}
}

func TestRetryEndsWithItsContext(t *testing.T) {
	server, _, _ := asked(t, says(503, "30", `{"detail":"away"}`))
	api, err := client.New(server.URL, "k", client.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = api.GetUsageWithResponse(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestPeople(t *testing.T) {
	page := func(next string, ids ...string) http.HandlerFunc {
		results := make([]string, len(ids))
		for i, id := range ids {
			results[i] = fmt.Sprintf(`{"profile_id":%q}`, id)
		}
		return says(200, "", fmt.Sprintf(`{"total":3,"results":[%s],"next_cursor":%s,"credits_charged":%d}`,
			strings.Join(results, ","), next, len(ids)))
	}
	server, requests, bodies := asked(t, page(`"c1"`, "a", "b"), page("null", "c"))
	api, err := client.New(server.URL, "k", client.Options{})
	require.NoError(t, err)
	search := client.SearchRequest{Query: jsontext.Value(`{"match_all":{}}`)}
	var ids []string
	for person, err := range client.People(t.Context(), api, search) {
		require.NoError(t, err)
		ids = append(ids, *person.ProfileId)
	}
	require.Equal(t, []string{"a", "b", "c"}, ids)
	require.JSONEq(t, `{"query":{"match_all":{}}}`, (*bodies)[0])
	require.JSONEq(t, `{"query":{"match_all":{}},"cursor":"c1"}`, (*bodies)[1])
	require.NotEqual(t, (*requests)[0].Header.Get("Idempotency-Key"), (*requests)[1].Header.Get("Idempotency-Key"))

	server, requests, _ = asked(t, page(`"c1"`, "a", "b"))
	api, err = client.New(server.URL, "k", client.Options{})
	require.NoError(t, err)
	for _, err := range client.People(t.Context(), api, search) {
		require.NoError(t, err)
		break
	}
	require.Len(t, *requests, 1, "no further page is fetched after break")

	server, requests, _ = asked(t, page(`"c1"`), page("null"))
	api, err = client.New(server.URL, "k", client.Options{})
	require.NoError(t, err)
	none, at := int64(0), "c1"
	for _, err := range client.People(t.Context(), api,
		client.SearchRequest{Query: search.Query, Size: &none, Cursor: &at}) {
		t.Fatal("noMatch is on a page of size 0", err)
	}
	require.Len(t, *requests, 1, "iteration ends if the cursor does not advance")

	server, _, _ = asked(t, says(400, "", `{"detail":"query: wrong"}`))
	api, err = client.New(server.URL, "k", client.Options{})
	require.NoError(t, err)
	for _, err := range client.People(t.Context(), api, search) {
		require.ErrorContains(t, err, "400: query: wrong")
	}
}

func TestVerifyWebhook(t *testing.T) {
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte("thirty-two bytes are good enough"))
	other := "whsec_" + base64.StdEncoding.EncodeToString([]byte("thirty-two other bytes, as good."))
	signed := func(body string, at time.Time) http.Header {
		w, err := standardwebhooks.NewWebhook(secret)
		require.NoError(t, err)
		signature, err := w.Sign("id1", at, []byte(body))
		require.NoError(t, err)
		h := http.Header{}
		h.Set("webhook-id", "id1")
		h.Set("webhook-timestamp", fmt.Sprint(at.Unix()))
		h.Set("webhook-signature", signature)
		return h
	}
	profile := `{"full_name":"Octavia Lin","custom":{},"confidence":{"full_name":0.9}}`
	d, err := client.VerifyWebhook(signed(profile, time.Now()), []byte(profile), other, secret)
	require.NoError(t, err)
	require.Equal(t, "id1", d.RequestID)
	require.InDelta(t, 0.9, d.Profile.Confidence["full_name"], 1e-6)
	d, err = client.VerifyWebhook(signed(`{"detail":"no"}`, time.Now()), []byte(`{"detail":"no"}`), secret)
	require.NoError(t, err)
	require.Equal(t, "no", d.Failure)
	require.Nil(t, d.Profile)
	for name, refused := range map[string]func() error{
		"another secret": func() error {
			_, err := client.VerifyWebhook(signed(profile, time.Now()), []byte(profile), other)
			return err
		},
		"another body": func() error {
			_, err := client.VerifyWebhook(signed(profile, time.Now()), []byte(profile+" "), secret)
			return err
		},
		"an old one": func() error {
			_, err := client.VerifyWebhook(signed(profile, time.Now().Add(-time.Hour)), []byte(profile), secret)
			return err
		},
		"no secret": func() error {
			_, err := client.VerifyWebhook(signed(profile, time.Now()), []byte(profile))
			return err
		},
	} {
		require.Error(t, refused(), name)
	}
}
