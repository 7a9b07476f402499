package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"muster/deploy/internal/instance"
	"muster/platform/bus"
	"muster/platform/clickhouse"
	queryapi "muster/query-api"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	webhook "muster/webhook-sender"
)

func addAllowFlag(flags *pflag.FlagSet, allow *[]string) {
	flags.StringSliceVar(allow, "webhook-allow", nil,
		"private address ranges (CIDR) that webhooks may be sent to, also with http: for development")
}

func addOriginFlag(flags *pflag.FlagSet, origins *[]string) {
	flags.StringSliceVar(origins, "cors-origin", nil,
		"origins whose web pages may call the API, such as https://app.example.com (CORS; * allows every origin)")
}

// parseAllow parses prefixes and single addresses.
func parseAllow(values []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, v := range values {
		p, err := netip.ParsePrefix(v)
		if err != nil {
			addr, addrErr := netip.ParseAddr(v)
			if addrErr != nil {
				return nil,
					fmt.Errorf("--webhook-allow: invalid address range %q: want a prefix such as 127.0.0.0/8", v)
			}
			p = netip.PrefixFrom(addr, addr.BitLen())
		}
		out = append(out, p)
	}
	return out, nil
}

func (c *command) webhookCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Manage webhook deliveries, endpoints and secrets",
		Long: `Results that take longer than the caller waits are delivered to the caller's endpoint, signed as in
Standard Webhooks with the organization's secret, and retried for about three days. deploy/docs/webhooks.md explains
to receivers how to verify a signature.`,
		Example: `  muster webhook secret create ORGANIZATION
  muster webhook test ORGANIZATION https://example.com/hooks
  muster webhook list --status dead
  muster webhook resend DELIVERY`,
		GroupID: "people",
	}
	endpoint := &cobra.Command{Use: "endpoint", Short: "Manage endpoints"}
	endpoint.AddCommand(c.webhookEndpointList(), c.webhookEndpointResume())
	secret := &cobra.Command{Use: "secret", Short: "Manage signing secrets"}
	secret.AddCommand(c.webhookSecretCreate(), c.webhookSecretRotate(),
		c.webhookSecretList("list", "List the secrets of an organization, without their values", false),
		c.webhookSecretList("show", "Show the valid secrets of an organization", true))
	cmd.AddCommand(c.webhookList(), c.webhookShow(), c.webhookResend(), c.webhookTest(), endpoint, secret)
	return cmd
}

func (c *command) accountWebhookSecret() *cobra.Command {
	cmd := &cobra.Command{Use: "webhook-secret", Short: "Show or rotate the webhook secret of an organization"}
	cmd.AddCommand(c.webhookSecretList("show", "Show the valid secrets of an organization", true),
		c.webhookSecretRotate())
	return cmd
}

func (c *command) operator(ctx context.Context) (*webhook.Operator, error) {
	s, err := c.session(ctx, "webhook")
	if err != nil {
		return nil, err
	}
	return webhook.NewOperator(webhook.OperatorConfig{Bus: s.kafka, Logger: s.tel.Logger}), nil
}

// clickHouse returns the ClickHouse server of CLICKHOUSE_DSN, else of the running instance. It needs no brokers.
func (c *command) clickHouse() (clickhouse.Config, error) {
	cfg, err := clickhouse.ConfigFromEnv(c.getenv)
	if err != nil || cfg.DSN != "" {
		return cfg, err
	}
	in, err := instance.Find(c.dataDir, c.getenv)
	cfg.DSN = in.ClickHouseURL
	if strings.HasPrefix(cfg.DSN, "http://") {
		// The embedded engine has no TLS.
		cfg.TLS = nil
	}
	return cfg, err
}

// withReadModels runs do with a connection to the read models.
func (c *command) withReadModels(ctx context.Context, do func(driver.Conn) error) (err error) {
	cfg, err := c.clickHouse()
	if err != nil {
		return err
	}
	cfg.ClientName = "muster webhook"
	conn, err := clickhouse.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return do(conn)
}

func (c *command) webhookList() *cobra.Command {
	var f readmodel.WebhookFilter
	var status string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List deliveries with their last attempt, newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.Status = event.WebhookStatus(status)
			switch f.Status {
			case "", event.WebhookPending, event.WebhookDelivered, event.WebhookDead:
			default:
				return fmt.Errorf("--status: invalid value %q: want pending, delivered or dead", status)
			}
			if f.Limit < 1 {
				return errors.New("--limit must be at least 1")
			}
			var err error
			if f.Organization, err = c.organizationID(cmd.Context(), f.Organization); err != nil {
				return err
			}
			return c.withReadModels(cmd.Context(), func(conn driver.Conn) error {
				list, err := readmodel.WebhookDeliveries(cmd.Context(), conn, f)
				if err != nil {
					return err
				}
				if wantsJSON(cmd) {
					return printJSON(cmd, list)
				}
				return printAttempts(cmd, list)
			})
		},
	}
	cmd.Flags().StringVar(&f.Organization, "organization", "", "only of this organization (ID or name)")
	cmd.Flags().StringVar(&f.Endpoint, "endpoint", "", "only to this endpoint (ID)")
	cmd.Flags().StringVar(&status, "status", "", "only with this status: pending, delivered or dead")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "maximum number to list")
	addJSONFlag(cmd)
	return cmd
}

func printAttempts(cmd *cobra.Command, list []event.WebhookAttempt) error {
	tw := newTable(cmd.OutOrStdout(), "AT\tDELIVERY\tATTEMPT\tSTATUS\tHTTP\tERROR\tTOOK\tNEXT\tADDRESS")
	for i := range list {
		a := &list[i]
		next := "-"
		if !a.NextAt.IsZero() {
			next = a.NextAt.Format(time.RFC3339)
		}
		answer := "-"
		if a.HTTPStatus > 0 {
			answer = fmt.Sprint(a.HTTPStatus)
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", a.At.Format(time.RFC3339), a.DeliveryID, a.Attempt,
			a.Status, answer,
			orDash(a.Error), (time.Duration(a.DurationMicros) * time.Microsecond).Round(time.Millisecond),
			next, a.Address)
	}
	return tw.Flush()
}

// errNoDelivery reports that the read model has no attempt of a delivery.
var errNoDelivery = errors.New("no attempt of this delivery found yet; `muster webhook list` lists deliveries")

func (c *command) webhookShow() *cobra.Command {
	return addJSONFlag(&cobra.Command{
		Use:   "show DELIVERY",
		Short: "Show every attempt of a delivery",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withReadModels(cmd.Context(), func(conn driver.Conn) error {
				list, err := readmodel.WebhookAttempts(cmd.Context(), conn,
					readmodel.WebhookFilter{Delivery: args[0], Limit: 1000})
				if err != nil {
					return err
				}
				if len(list) == 0 {
					return fmt.Errorf("%s: %w", args[0], errNoDelivery)
				}
				if wantsJSON(cmd) {
					return printJSON(cmd, list)
				}
				last := &list[len(list)-1]
				fmt.Fprintf(cmd.OutOrStdout(),
					"delivery      %s\norganization  %s\nendpoint      %s\nrequest       %s\ncreated       %s\n\n",
					last.DeliveryID, last.OrganizationID, last.EndpointID, orDash(last.RequestID),
					last.CreatedAt.Format(time.RFC3339))
				if err := printAttempts(cmd, list); err != nil {
					return err
				}
				if last.Response != "" {
					fmt.Fprintf(cmd.OutOrStdout(), "\nlast response, redacted: %s\n", last.Response)
				}
				return nil
			})
		},
	})
}

func (c *command) webhookResend() *cobra.Command {
	return &cobra.Command{
		Use:   "resend DELIVERY",
		Short: "Send a delivery again, with the same webhook-id",
		Long: `Sends a delivery again, from its first attempt on, whatever its outcome was. Its body is read from the
task topic, which retains it for seven days.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			op, err := c.operator(ctx)
			if err != nil {
				return err
			}
			return c.withReadModels(ctx, func(conn driver.Conn) error {
				list, err := readmodel.WebhookDeliveries(ctx, conn,
					readmodel.WebhookFilter{Delivery: args[0], Limit: 2})
				if err != nil {
					return err
				}
				if len(list) == 0 {
					return fmt.Errorf("%s: %w", args[0], errNoDelivery)
				}
				if err := op.Resend(ctx, args[0], list[0].TaskPartition, list[0].TaskOffset); err != nil {
					if errors.Is(err, bus.ErrNoMessage) {
						return fmt.Errorf("%s: its body has expired: the task topic retains it for seven days", args[0])
					}
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(),
					"delivery %s will be sent again; `muster webhook show %s` shows the attempts\n", args[0], args[0])
				return err
			})
		},
	}
}

func (c *command) webhookTest() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "test ORGANIZATION URL",
		Short: "Send a small signed delivery and show the outcome",
		Long: `Sends a small JSON object, signed with the organization's secret, through the webhook-sender and shows
the first attempt. A failed delivery is retried like any other.

Exit status: 0 delivered; 1 not delivered; 2 no attempt was made.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout,
				fmt.Errorf("--timeout of %s passed", timeout))
			defer cancel()
			organization, err := c.organizationID(ctx, args[0])
			if err != nil {
				return err
			}
			op, err := c.operator(ctx)
			if err != nil {
				return err
			}
			attempt, err := op.Test(ctx, organization, args[1])
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				err = printJSON(cmd, attempt)
			} else {
				err = printAttempts(cmd, []event.WebhookAttempt{attempt})
			}
			if err == nil && attempt.Status != event.WebhookDelivered {
				return partlyError{errors.New(deliveryHint(&attempt))}
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "maximum time to wait for the attempt")
	addJSONFlag(cmd)
	return cmd
}

// deliveryHint explains how to fix the cause of a failed delivery, and whether it will be retried.
func deliveryHint(a *event.WebhookAttempt) string {
	switch a.Error {
	case "no_secret":
		return "the organization has no webhook secret: create one with `muster webhook secret create`"
	case "forbidden_address":
		return "the address is private or reserved, or uses http: for development, start the sender with " +
			"--webhook-allow"
	case "redirect":
		return "the receiver redirects, which is not followed: use the final address"
	case "tls":
		return "the receiver's certificate is invalid for its name, or not from a trusted authority"
	case "gone":
		return "the receiver answered 410, so deliveries are stopped: when it accepts webhooks again, " +
			resumeCommand(a)
	case "endpoint_stopped":
		return "dead-lettered, because the receiver answered an earlier delivery with 410: when it accepts webhooks " +
			"again, " + resumeCommand(a)
	case "subject_erased":
		return "dead-lettered, because it is about an erased person"
	case "organization_inactive":
		return "dead-lettered, because the organization is deactivated: after `muster account activate " +
			a.OrganizationID + "`, `muster webhook resend " + a.DeliveryID + "`"
	}
	if a.Status == event.WebhookDead {
		return "not delivered (" + a.Error +
			"), and will not be retried: after fixing the cause, `muster webhook resend " + a.DeliveryID + "`"
	}
	return "not delivered (" + a.Error + "), and will be retried"
}

func resumeCommand(a *event.WebhookAttempt) string {
	return "`muster webhook endpoint resume " + a.EndpointID + "`"
}

// organizationID resolves an organization's ID or name; empty is empty.
func (c *command) organizationID(ctx context.Context, idOrName string) (id string, err error) {
	if idOrName == "" {
		return "", nil
	}
	err = c.withAccounts(ctx, func(a *queryapi.Accounts) error {
		o, err := a.Organization(idOrName)
		id = o.ID
		return err
	})
	return id, err
}
