package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"muster/schemas/event"
	"muster/schemas/suppress"
	webhook "muster/webhook-sender"
)

// withSecrets runs do with the webhook secrets of an organization, given by ID or name.
func (c *command) withSecrets(cmd *cobra.Command, idOrName string,
	do func(s *webhook.Secrets, organization string) error) error {
	ctx := cmd.Context()
	organization, err := c.organizationID(ctx, idOrName)
	if err != nil {
		return err
	}
	tel, err := c.telemetry(ctx, "webhook")
	if err != nil {
		return err
	}
	kafka, err := c.kafka()
	if err != nil {
		return err
	}
	root, err := c.rootSecret()
	if err != nil {
		return err
	}
	key, err := root.Key(event.WebhookKeyName, event.WebhookKeySize)
	if err != nil {
		return err
	}
	// With another root secret the sender could not decrypt what is stored; withOurs detects that.
	return c.withOurs(ctx, kafka, tel, func(ctx context.Context, _ *suppress.Set) (err error) {
		s, err := webhook.OpenSecrets(ctx, webhook.SecretsConfig{Bus: kafka, Key: key, Logger: tel.Logger})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		return do(s, organization)
	})
}

func (c *command) webhookSecretCreate() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "create ORGANIZATION",
		Short: "Create the first secret of an organization",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withSecrets(cmd, args[0], func(s *webhook.Secrets, organization string) error {
				made, err := s.Create(cmd.Context(), organization)
				if errors.Is(err, webhook.ErrSecretsExist) {
					return fmt.Errorf(
						"%w: `muster webhook secret show %s` shows it, `muster webhook secret rotate %[2]s` "+
							"replaces it", err, organization)
				}
				if err != nil {
					return err
				}
				return printSecret(cmd, made, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (c *command) webhookSecretRotate() *cobra.Command {
	var asJSON, now bool
	var overlap time.Duration
	cmd := &cobra.Command{
		Use:   "rotate ORGANIZATION",
		Short: "Replace the secret, with an overlap with the old one",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if overlap <= 0 {
				return errors.New("--overlap must be positive; --now revokes the old secret immediately")
			}
			if now {
				overlap = 0
			}
			return c.withSecrets(cmd, args[0], func(s *webhook.Secrets, organization string) error {
				made, err := s.Rotate(cmd.Context(), organization, overlap)
				if err != nil {
					return err
				}
				return printSecret(cmd, made, asJSON)
			})
		},
	}
	cmd.Flags().DurationVar(&overlap, "overlap", 24*time.Hour,
		"how long deliveries are also signed with the old secret")
	cmd.Flags().BoolVar(&now, "now", false, "revoke the old secrets immediately, as after a leak")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printSecret(cmd *cobra.Command, s webhook.Secret, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, s)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(),
		"secret %s\n%s\nGive it to the operator of the receiver, who verifies signatures with it.\n", s.ID, s.Secret)
	return err
}

func (c *command) webhookSecretList(verb, short string, reveal bool) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   verb + " ORGANIZATION",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withSecrets(cmd, args[0], func(s *webhook.Secrets, organization string) error {
				list, err := s.List(organization, reveal)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd, list)
				}
				if len(list) == 0 {
					fmt.Fprintln(cmd.ErrOrStderr(),
						"The organization has no webhook secret, so nothing is sent: create one with `muster "+
							"webhook secret create "+organization+"`.")
				}
				tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(tw, "SECRET\tSTATE\tCREATED\tVALUE")
				for _, v := range list {
					state := "valid"
					switch {
					case !v.Valid:
						state = "ended " + v.ExpiresAt.Format(time.RFC3339)
					case !v.ExpiresAt.IsZero():
						state = "valid until " + v.ExpiresAt.Format(time.RFC3339)
					}
					fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", v.ID, state, v.CreatedAt.Format(time.RFC3339), orDash(v.Secret))
				}
				return tw.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
