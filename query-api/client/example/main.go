// Command example shows the API with the Go client: it enriches a person, searches people, and receives a profile by
// webhook.
//
//	MUSTER_URL=http://127.0.0.1:8080 KEY=mk_live_... SECRET=whsec_... go run ./query-api/client/example octavia
//
// The webhook uses plain HTTP on this machine, which the service must allow: muster up --webhook-allow 127.0.0.0/8.
// Without SECRET that step is skipped.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"muster/query-api/client"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	username := "octavia"
	if len(args) > 0 {
		username = args[0]
	}
	api, err := client.New(os.Getenv("MUSTER_URL"), os.Getenv("KEY"), client.Options{})
	if err != nil {
		return err
	}
	enriched, err := api.EnrichPerson(ctx, client.PersonEnrichRequest{
		Codehost: username, Websets: []client.WebsetName{client.WebsetNameCodehost, client.WebsetNameNetwork},
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "enrich:", enriched.Value.WebsetsMatched)

	search := client.SearchRequest{
		Query: map[string]any{"match": map[string]any{"profile.headline": "engineer"}}, Size: new(int64(5)),
	}
	found := 0
	for person, err := range api.People(ctx, search) {
		if err != nil {
			return err
		}
		if person.ProfileID == "" {
			return fmt.Errorf("result %d has no ID", found)
		}
		found++
	}
	search.Size = new(int64(0)) // only the total, free of charge
	all, err := api.SearchPeople(ctx, search)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "search:", found, "of", all.Value.Total)

	_, err = api.DiscoverPerson(ctx, client.PersonDiscoverRequest{Codehost: "https://foreign.example/x"})
	fmt.Fprintln(out, "refused:", err)

	if secret := os.Getenv("SECRET"); secret != "" {
		return receive(ctx, api, username, secret, out)
	}
	return nil
}

// receive requests a profile and waits for it at its own endpoint.
func receive(ctx context.Context, api *client.Client, username, secret string, out io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	deliveries := make(chan *client.Delivery, 1)
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<20))
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			d, err := client.VerifyWebhook(r.Header, body, secret)
			if err != nil {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			w.WriteHeader(http.StatusNoContent)
			select { // delivery is at least once
			case deliveries <- d:
			default:
			}
		})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		_, _ = server.Close(), <-served
	}()

	accepted, err := api.CreateContext(ctx, client.ContextRequest{
		Person:     "code at https://codehost.example/" + username,
		WebhookURL: "http://" + listener.Addr().String() + "/muster", ResponseTimeoutSec: new(0.0),
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "context:", accepted.Status)
	select {
	case d := <-deliveries:
		fmt.Fprintln(out, "webhook:", d.Profile != nil && len(d.Profile.Confidence) > 0, d.Failure)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for webhook: %w", context.Cause(ctx))
	}
}
