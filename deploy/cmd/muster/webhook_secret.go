package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"muster/schemas/event"
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
	root, err := c.rootSecret()
	if err != nil {
		return err
	}
	key, err := root.Key(event.WebhookKeyName, event.WebhookKeySize)
	if err != nil {
		return err
	}
	// With another root secret the sender could not decrypt what is stored; withOurs detects that.
	return c.withOurs(ctx, "webhook", func(ctx context.Context, s session) (err error) {
		secrets, err := webhook.OpenSecrets(ctx,
			webhook.SecretsConfig{Bus: s.kafka, Key: key, Logger: s.tel.Logger})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, secrets.Close()) }()
		return do(secrets, organization)
	})
}

func (c *command) webhookSecretCreate() *cobra.Command {
	return addJSONFlag(&cobra.Command{
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
				return printSecret(cmd, made)
			})
		},
	})
}

func (c *command) webhookSecretRotate() *cobra.Command {
	var now bool
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
				return printSecret(cmd, made)
			})
		},
	}
	cmd.Flags().DurationVar(&overlap, "overlap", 24*time.Hour,
		"how long deliveries are also signed with the old secret")
	cmd.Flags().BoolVar(&now, "now", false, "revoke the old secrets immediately, as after a leak")
	addJSONFlag(cmd)
	return cmd
}

func printSecret(cmd *cobra.Command, s webhook.Secret) error {
	if wantsJSON(cmd) {
		return printJSON(cmd, s)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(),
		"secret %s\n%s\nGive it to the operator of the receiver, who verifies signatures with it.\n", s.ID, s.Secret)
	return err
}

func (c *command) webhookSecretList(verb, short string, reveal bool) *cobra.Command {
	return addJSONFlag(&cobra.Command{
		Use:   verb + " ORGANIZATION",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withSecrets(cmd, args[0], func(s *webhook.Secrets, organization string) error {
				list, err := s.List(organization, reveal)
				if err != nil {
					return err
				}
				if wantsJSON(cmd) {
					return printJSON(cmd, list)
				}
				if len(list) == 0 {
					fmt.Fprintln(cmd.ErrOrStderr(),
						"The organization has no webhook secret, so nothing is sent: create one with `muster "+
							"webhook secret create "+organization+"`.")
				}
				tw := newTable(cmd.OutOrStdout(), "SECRET\tSTATE\tCREATED\tVALUE")
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
	})
}
