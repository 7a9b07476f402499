package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/segmentio/kafka-go"
	"github.com/spf13/cobra"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	webhook "muster/webhook-sender"
)

// endpointView is the JSON form of an endpoint.
type endpointView struct {
	EndpointID     string    `json:"endpoint_id"`
	OrganizationID string    `json:"organization_id"`
	Address        string    `json:"address"`
	State          string    `json:"state"`
	Pending        int       `json:"pending"`
	Attempts       uint64    `json:"attempts"`
	Delivered      uint64    `json:"delivered"`
	Dead           uint64    `json:"dead"`
	LastAt         time.Time `json:"last_at,omitzero"`
	LastError      string    `json:"last_error,omitempty"`
}

func (c *command) webhookEndpointList() *cobra.Command {
	f := readmodel.WebhookFilter{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List stopped, failing and recently used endpoints",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if f.Limit < 1 {
				return errors.New("--limit must be at least 1")
			}
			var err error
			if f.Organization, err = c.organizationID(ctx, f.Organization); err != nil {
				return err
			}
			_, states, err := c.endpoints(ctx)
			if err != nil {
				return err
			}
			var used []readmodel.WebhookEndpoint
			if err := c.withReadModels(ctx, func(conn driver.Conn) (err error) {
				used, err = readmodel.WebhookEndpoints(ctx, conn, f)
				return err
			}); err != nil {
				return err
			}
			views := endpointViews(states, used, f.Organization, time.Now())
			if wantsJSON(cmd) {
				return printJSON(cmd, views)
			}
			tw := newTable(cmd.OutOrStdout(),
				"ENDPOINT\tSTATE\tPENDING\tATTEMPTS\tDELIVERED\tDEAD\tLAST ERROR\tORGANIZATION\tADDRESS")
			for _, v := range views {
				fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", v.EndpointID, v.State, v.Pending, v.Attempts,
					v.Delivered, v.Dead,
					orDash(v.LastError), v.OrganizationID, v.Address)
			}
			return tw.Flush()
		},
	}
	cmd.Flags().StringVar(&f.Organization, "organization", "", "only of this organization (ID or name)")
	cmd.Flags().IntVar(&f.Limit, "limit", 100, "maximum number of recently used endpoints")
	addJSONFlag(cmd)
	return cmd
}

// endpoints reads the state topic of endpoints. The wait for the brokers and the topic has a timeout, reading has none.
func (c *command) endpoints(ctx context.Context) (*webhook.Operator, webhook.EndpointHealth, error) {
	op, err := c.operator(ctx)
	if err != nil {
		return nil, webhook.EndpointHealth{}, err
	}
	cfg, err := c.kafka()
	if err != nil {
		return nil, webhook.EndpointHealth{}, err
	}
	withTimeout, cancel := c.withTimeout(ctx)
	defer cancel()
	end := bus.Follow(withTimeout, cfg, bus.FollowConfig{
		Topics: []string{event.TopicWebhookState}, FromEnd: true,
		Handle: func(context.Context, kafka.Message) error { return nil },
	})
	if err := errors.Join(end.WaitReady(withTimeout), end.Close()); err != nil {
		return nil, webhook.EndpointHealth{}, fmt.Errorf("read webhook states: %w", err)
	}
	states, err := op.Endpoints(ctx)
	return op, states, err
}

// endpointViews joins the states from the topic with the usage from the read model.
func endpointViews(states webhook.EndpointHealth, used []readmodel.WebhookEndpoint, organization string,
	now time.Time) []endpointView {
	views := []endpointView{}
	at := make(map[string]int)
	for _, e := range states.Endpoints {
		if organization != "" && e.OrganizationID != organization {
			continue
		}
		state := "failing"
		switch {
		case !e.StoppedAt.IsZero():
			state = "stopped " + e.StoppedAt.Format(time.RFC3339)
		case now.Before(e.BlockedUntil):
			state = "waiting until " + e.BlockedUntil.Format(time.RFC3339)
		}
		at[e.EndpointID] = len(views)
		views = append(views, endpointView{
			EndpointID: e.EndpointID, OrganizationID: e.OrganizationID, Address: e.Address, State: state,
			Pending: states.Pending[e.EndpointID],
		})
	}
	for _, u := range used {
		i, ok := at[u.EndpointID]
		if !ok {
			i = len(views)
			state := "receiving"
			if u.LastError != "" {
				state = "failing"
			}
			views = append(views, endpointView{
				EndpointID: u.EndpointID, OrganizationID: u.OrganizationID, Address: u.Address, State: state,
				Pending: states.Pending[u.EndpointID],
			})
		}
		v := &views[i]
		v.Attempts, v.Delivered, v.Dead, v.LastAt, v.LastError = u.Attempts, u.Delivered, u.Dead, u.LastAt, u.LastError
	}
	return views
}

func (c *command) webhookEndpointResume() *cobra.Command {
	return &cobra.Command{
		Use:   "resume ENDPOINT",
		Short: "Resume deliveries to an endpoint that answered 410",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !strings.HasPrefix(args[0], "ep_") {
				return fmt.Errorf("invalid endpoint ID %q: want ep_...; `muster webhook endpoint list` lists them",
					args[0])
			}
			op, states, err := c.endpoints(cmd.Context())
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(states.Endpoints,
				func(e event.EndpointState) bool { return e.EndpointID == args[0] }) {
				return fmt.Errorf(
					"endpoint %s is unknown, or neither stopped nor failing: `muster webhook endpoint list` lists "+
						"endpoints", args[0])
			}
			if err := op.Resume(cmd.Context(), args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(),
				"endpoint %s resumed; to list dead-lettered deliveries: `muster webhook list --endpoint %s --status "+
					"dead`\n", args[0], args[0])
			return err
		},
	}
}
