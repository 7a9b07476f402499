package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	queryapi "muster/query-api"
	"muster/schemas/event"
)

// accountView is the JSON form of an organization.
type accountView struct {
	OrganizationID string         `json:"organization_id"`
	Name           string         `json:"name"`
	Plan           string         `json:"plan"`
	Active         bool           `json:"active"`
	CreatedAt      time.Time      `json:"created_at"`
	Limits         event.Limits   `json:"limits"`
	Usage          *usageView     `json:"usage,omitempty"`
	Keys           []keyView      `json:"keys,omitempty"`
	History        []event.Change `json:"history,omitempty"`
	// Key is a new key; it is shown only once.
	Key string `json:"key,omitempty"`
}

func viewOf(o event.Organization) accountView {
	return accountView{OrganizationID: o.ID, Name: o.Name, Plan: o.Plan, Active: o.Active, CreatedAt: o.CreatedAt,
		Limits: o.LimitsOf()}
}

// withTimeout limits a wait for brokers and topics to connectTimeout.
func (c *command) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.connectTimeout, fmt.Errorf(
		"timed out after %s: the Kafka brokers are unavailable, or topics are missing (create them with `muster "+
			"migrate`)",
		c.connectTimeout))
}

// withAccounts runs do with the accounts of the instance.
func (c *command) withAccounts(ctx context.Context, do func(*queryapi.Accounts) error) (err error) {
	s, err := c.session(ctx, "account")
	if err != nil {
		return err
	}
	withTimeout, cancel := c.withTimeout(ctx)
	accounts, err := queryapi.OpenAccounts(withTimeout, queryapi.AccountsConfig{Bus: s.kafka, Logger: s.tel.Logger})
	cancel()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, accounts.Close()) }()
	return do(accounts)
}

// onAccounts returns the run function of a command that needs only the accounts of the instance.
func (c *command) onAccounts(run func(cmd *cobra.Command, args []string, a *queryapi.Accounts) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return c.withAccounts(cmd.Context(), func(a *queryapi.Accounts) error { return run(cmd, args, a) })
	}
}

func (c *command) accountCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "account",
		Short: "Manage organizations and their API keys",
		Long: `Organizations call the API with keys. Changes are published on the account topic and take effect on
every replica within a second. A key is shown once, when it is created; only its hash is stored. ORGANIZATION is the
ID of an organization, or its name if that is unique, as "account list" shows them.`,
		Example: `  muster account create "Example Ltd"
  muster account key create ORGANIZATION --name laptop --scopes enrich,webset
  muster account deactivate ORGANIZATION`,
		GroupID: "people",
	}
	cmd.AddCommand(c.accountCreate(), c.accountList(), c.accountShow(), c.accountActive("activate", true),
		c.accountActive("deactivate", false),
		c.accountPlan(), c.accountApply(), c.accountReconcile(), c.keyCommand(), c.accountWebhookSecret())
	return cmd
}

func (c *command) accountCreate() *cobra.Command {
	var name string
	var numbers planFlags
	var noKey bool
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create an organization, with a first key",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(args[0]) == "" {
				return errors.New("NAME is empty: give a name of the organization")
			}
			if err := numbers.check(cmd); err != nil {
				return err
			}
			plan, err := queryapi.NewPlan(name, numbers.rpm, numbers.monthly, numbers.credits)
			if err != nil {
				return err
			}
			return c.withAccounts(cmd.Context(), func(a *queryapi.Accounts) error {
				var namesakes []string
				for _, o := range a.OrganizationsNamed(args[0]) {
					namesakes = append(namesakes, o.ID)
				}
				o, err := a.CreateOrganizationOn(cmd.Context(), args[0], plan)
				if err != nil {
					return err
				}
				if len(namesakes) > 0 {
					fmt.Fprintf(cmd.ErrOrStderr(),
						"muster: another organization has this name already (%s); set \"id\" in files for `muster "+
							"account apply`\n",
						strings.Join(namesakes, ", "))
				}
				view := viewOf(o)
				view.Usage = &usageView{
					Period: event.PeriodOf(o.CreatedAt), RequestsRemaining: view.Limits.MonthlyRequests,
					CreditsRemaining: view.Limits.Credits,
				}
				if !noKey {
					_, key, err := a.CreateKey(cmd.Context(), o.ID, queryapi.KeyOptions{Name: "first key"})
					if err != nil {
						return fmt.Errorf("organization %s was created, but not its key: %w", o.ID, err)
					}
					view.Key = key.Reveal()
				}
				if wantsJSON(cmd) {
					return printJSON(cmd, view)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "organization %s (%s, plan %s)\n", o.ID, o.Name, plan)
				if view.Key != "" {
					fmt.Fprintf(cmd.OutOrStdout(), "key %s\nSave the key: it is not shown again.\n", view.Key)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&name, "plan", queryapi.DefaultPlan,
		"plan of the organization: default, development, or any name with limits")
	numbers.add(cmd, "the plan's, or the default plan's")
	addJSONFlag(cmd)
	cmd.Flags().BoolVar(&noKey, "no-key", false, "do not create a key")
	return cmd
}

func (c *command) accountList() *cobra.Command {
	return addJSONFlag(&cobra.Command{
		Use:   "list",
		Short: "List organizations",
		Args:  cobra.NoArgs,
		RunE: c.onAccounts(func(cmd *cobra.Command, _ []string, a *queryapi.Accounts) error {
			views := []accountView{}
			for _, o := range a.Organizations() {
				views = append(views, viewOf(o))
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, views)
			}
			tw := newTable(cmd.OutOrStdout(), "ORGANIZATION\tNAME\tPLAN\tACTIVE\tCREATED")
			for _, v := range views {
				fmt.Fprintf(tw, "%s\t%s\t%s\t%t\t%s\n", v.OrganizationID, v.Name, v.Plan, v.Active,
					v.CreatedAt.Format(time.RFC3339))
			}
			return tw.Flush()
		}),
	})
}

func (c *command) accountShow() *cobra.Command {
	return addJSONFlag(&cobra.Command{
		Use:   "show ORGANIZATION",
		Short: "Show an organization and its keys",
		Args:  cobra.ExactArgs(1),
		RunE: c.onAccounts(func(cmd *cobra.Command, args []string, a *queryapi.Accounts) error {
			o, err := a.Organization(args[0])
			if err != nil {
				return err
			}
			view := viewOf(o)
			view.History = o.History
			usage, used, err := c.usageOf(cmd.Context(), o)
			if err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "muster: cannot read the usage: %v\n", err)
			} else {
				view.Usage = &usage
			}
			view.Keys = keyViews(a.Keys(o.ID), used)
			if wantsJSON(cmd) {
				return printJSON(cmd, view)
			}
			fmt.Fprintf(cmd.OutOrStdout(),
				"organization %s\nname         %s\nplan         %s\nactive       %t\ncreated      %s\n",
				o.ID, o.Name, queryapi.Plan{Name: o.Plan, Limits: o.LimitsOf()}, o.Active,
				o.CreatedAt.Format(time.RFC3339))
			if view.Usage != nil {
				fmt.Fprintf(cmd.OutOrStdout(), "used         %d requests and %d credits in %s\n", usage.Requests,
					usage.Credits, usage.Period)
			}
			fmt.Fprintln(cmd.OutOrStdout())
			if err := printKeys(cmd, view.Keys); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout())
			for _, h := range o.History {
				fmt.Fprintf(cmd.OutOrStdout(), "%s  %s  (%s)\n", h.At.Format(time.RFC3339), h.What, h.By)
			}
			return nil
		}),
	})
}

func (c *command) accountActive(verb string, active bool) *cobra.Command {
	return &cobra.Command{
		Use: verb + " ORGANIZATION",
		Short: map[bool]string{true: "Allow the calls of an organization again",
			false: "Reject the calls of an organization with 403"}[active],
		Args: cobra.ExactArgs(1),
		RunE: c.onAccounts(func(cmd *cobra.Command, args []string, a *queryapi.Accounts) error {
			o, err := a.SetActive(cmd.Context(), args[0], active)
			if err != nil {
				return fmt.Errorf("%s %s: %w", verb, args[0], err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "organization %s is active: %t\n", o.ID, o.Active)
			return err
		}),
	}
}

func (c *command) keyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "key", Short: "Manage the API keys of an organization"}
	cmd.AddCommand(c.keyCreate(), c.keyList(), c.keyRotate(), c.keyRevoke())
	return cmd
}

func (c *command) keyCreate() *cobra.Command {
	var o queryapi.KeyOptions
	var expires time.Duration
	cmd := &cobra.Command{
		Use:   "create ORGANIZATION",
		Short: "Create a key and show it once",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("scopes") && len(o.Scopes) == 0 {
				return fmt.Errorf("--scopes is empty: pass some of %s, or omit it for a key with the default scopes",
					strings.Join(event.Scopes(), ","))
			}
			if expires < 0 {
				return fmt.Errorf("--expires-in: invalid duration %s: want a positive one", expires)
			}
			if expires > 0 {
				o.ExpiresAt = time.Now().Add(expires)
			}
			return c.withAccounts(cmd.Context(), func(a *queryapi.Accounts) error {
				organization, err := a.Organization(args[0])
				if err != nil {
					return err
				}
				state, key, err := a.CreateKey(cmd.Context(), organization.ID, o)
				if err != nil {
					return err
				}
				if wantsJSON(cmd) {
					view := viewOf(organization)
					view.Key, view.Keys = key.Reveal(), keyViews([]event.Key{state}, nil)
					return printJSON(cmd, view)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "key %s\nSave the key: it is not shown again.\n", key.Reveal())
				return err
			})
		},
	}
	cmd.Flags().StringVar(&o.Name, "name", "", "name of the key")
	cmd.Flags().StringSliceVar(&o.Scopes, "scopes", nil,
		"scopes of the key: "+strings.Join(event.Scopes(), ", ")+" (default: all except analyze and manage)")
	cmd.Flags().DurationVar(&expires, "expires-in", 0, "validity of the key, such as 720h (default: unlimited)")
	addJSONFlag(cmd)
	return cmd
}

func (c *command) keyList() *cobra.Command {
	return addJSONFlag(&cobra.Command{
		Use:   "list ORGANIZATION",
		Short: "List the keys of an organization",
		Args:  cobra.ExactArgs(1),
		RunE: c.onAccounts(func(cmd *cobra.Command, args []string, a *queryapi.Accounts) error {
			o, err := a.Organization(args[0])
			if err != nil {
				return err
			}
			keys := a.Keys(o.ID)
			_, used, err := c.usageOf(cmd.Context(), o)
			if err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "muster: cannot read when keys were last used: %v\n", err)
			}
			views := keyViews(keys, used)
			if wantsJSON(cmd) {
				return printJSON(cmd, views)
			}
			return printKeys(cmd, views)
		}),
	})
}

// keyID returns the ID of a key. It accepts a whole key too, which is what a user has after a leak.
func keyID(given string) string {
	if key, err := event.ParseAPIKey(given); err == nil {
		return key.ID()
	}
	return given
}

func (c *command) keyRevoke() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke KEY_ID",
		Short: "Revoke a key immediately",
		Long: "Revokes a key immediately. KEY_ID is the public part of the key, the 8 characters after mk_live_, or " +
			"the whole key.",
		Args: cobra.ExactArgs(1),
		RunE: c.onAccounts(func(cmd *cobra.Command, args []string, a *queryapi.Accounts) error {
			k, err := a.RevokeKey(cmd.Context(), keyID(args[0]))
			if err != nil {
				return fmt.Errorf("revoke a key: %w", err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "key %s was revoked at %s\n", k.ID,
				k.RevokedAt.Format(time.RFC3339))
			return err
		}),
	}
}

func printKeys(cmd *cobra.Command, keys []keyView) error {
	tw := newTable(cmd.OutOrStdout(), "KEY\tNAME\tSTATE\tSCOPES\tCREATED\tLAST USED")
	for _, k := range keys {
		state := "valid"
		switch now := time.Now(); {
		case !k.RevokedAt.IsZero():
			state = "revoked " + k.RevokedAt.Format(time.RFC3339)
		case !k.ValidAt(now):
			state = "expired " + k.ExpiresAt.Format(time.RFC3339)
		case !k.ExpiresAt.IsZero():
			state = "valid until " + k.ExpiresAt.Format(time.RFC3339)
		}
		used := "-"
		if k.LastUsedAt != nil {
			used = k.LastUsedAt.Format(time.RFC3339)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Name, state, strings.Join(k.Scopes, ","),
			k.CreatedAt.Format(time.RFC3339), used)
	}
	return tw.Flush()
}
