package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"muster/query-api/client"
)

// newService returns a server with fixed responses.
func newService() *httptest.Server {
	bodies := map[string]string{
		"/v1/person/enrich": `{"websets_matched":["network"],"person":{"network":{"network_username":"octavia-lin",
			"profile":{"full_name":"Octavia Lin"}}}}`,
		"/v1/bulk": `{"job_id":"01980c5e","rows":2}`,
		"/v1/bulk/01980c5e": `{"job_id":"01980c5e","operation":"person_enrich","status":"done","rows":2,"done":2,
			"credits":1}`,
		"/v1/bulk/01980c5e/results": `{"reference":"crm-1","websets_matched":["network"],"person":{}}
{"reference":"crm-2","websets_matched":[],"person":{},"miss_reason":"not_found"}
`,
		"/v1/person/search": `{"total":2,"results":[{"network_username":"octavia-lin"},{"network_username":"juno"}],
			"next_cursor":null,"credits_charged":2}`,
	}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Credits-Charged", "1")
		w.Header().Set("X-Request-Id", "01932e5c")
		if body, ok := bodies[r.URL.Path]; ok {
			_, _ = io.WriteString(w, body)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"detail": "the key lacks the scope \"usage\""}`)
	}))
}

func Example() {
	service := newService()
	defer service.Close()

	api, err := client.New(service.URL, "mk_live_...", client.Options{})
	if err != nil {
		panic(err)
	}
	found, err := api.EnrichPerson(context.Background(), client.PersonEnrichRequest{
		Email: "octavia@example.org", Websets: []client.WebsetName{client.WebsetNameNetwork},
	})
	if err != nil {
		panic(err)
	}
	if network := found.Value.Person.Network; network != nil {
		fmt.Println(network.NetworkUsername, network.Profile.FullName, found.CreditsCharged)
	}
	// Output: octavia-lin Octavia Lin 1
}

func ExampleClient_People() {
	service := newService()
	defer service.Close()
	api, err := client.New(service.URL, "mk_live_...", client.Options{})
	if err != nil {
		panic(err)
	}

	search := client.SearchRequest{
		Query: map[string]any{"match": map[string]any{"profile.headline": "engineer"}},
		Size:  new(int64(100)),
	}
	for person, err := range api.People(context.Background(), search) {
		if err != nil {
			panic(err)
		}
		fmt.Println(person.NetworkUsername)
	}
	// Output:
	// octavia-lin
	// juno
}

func ExampleClient_SubmitBulk() {
	service := newService()
	defer service.Close()
	api, err := client.New(service.URL, "mk_live_...", client.Options{})
	if err != nil {
		panic(err)
	}

	ctx := context.Background()
	rows, err := client.BulkRows(
		client.PersonEnrichItem{Reference: "crm-1", Email: "octavia@example.org"},
		client.PersonEnrichItem{Reference: "crm-2", Email: "unknown@example.org"})
	if err != nil {
		panic(err)
	}
	accepted, err := api.SubmitBulk(ctx, rows, client.BulkOptions{Operation: client.BulkOperationPersonEnrich})
	if err != nil {
		panic(err)
	}
	job, err := api.WaitBulk(ctx, accepted.Value.JobID, nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(job.Value.Status, job.Value.Credits)
	for result, err := range api.BulkResults(ctx, accepted.Value.JobID) {
		if err != nil {
			panic(err)
		}
		fmt.Println(result.Reference, len(result.WebsetsMatched), result.MissReason == "not_found")
	}
	// Output:
	// done 1
	// crm-1 1 false
	// crm-2 0 true
}

func ExampleError() {
	service := newService()
	defer service.Close()
	api, err := client.New(service.URL, "mk_live_...", client.Options{})
	if err != nil {
		panic(err)
	}

	_, err = api.GetUsage(context.Background())
	if problem, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println(problem.Status, problem.Detail, problem.RequestID)
	}
	// Output: 403 the key lacks the scope "usage" 01932e5c
}

func ExampleVerifyWebhook() {
	secret := "whsec_..." // muster webhook secret show ORGANIZATION
	http.HandleFunc("POST /muster", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<20))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		delivery, err := client.VerifyWebhook(r.Header, body, secret)
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		fmt.Println(delivery.RequestID, delivery.Profile, delivery.Failure)
	})
}
