package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"muster/deploy/erasure"
	"muster/ingest"
	"muster/platform/bus"
	"muster/platform/service"
	erasing "muster/projector/erasure"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// session is what a command on the brokers of an instance works with.
type session struct {
	tel   *service.Telemetry
	kafka bus.Config
	// set is the loaded suppression set, if the command needs it.
	set *suppress.Set
}

// session returns the telemetry and the brokers of a command.
func (c *command) session(ctx context.Context, name string) (s session, err error) {
	if s.tel, err = c.telemetry(ctx, name); err != nil {
		return s, err
	}
	s.kafka, err = c.kafka()
	return s, err
}

// withSuppressed runs do with the loaded suppression set.
func (c *command) withSuppressed(ctx context.Context, kafka bus.Config, logger *slog.Logger,
	do func(context.Context, *suppress.Set) error) error {
	secret, err := c.rootSecret()
	if err != nil {
		return err
	}
	follower, err := erasure.NewFollower(secret, kafka, logger)
	if err != nil {
		return err
	}
	return follower.With(ctx, do)
}

// withOurs runs do with a session and the loaded suppression set. It fails if the root secret is not the one of the
// instance: otherwise the first erasure with a wrong root secret would succeed.
func (c *command) withOurs(ctx context.Context, name string, do func(context.Context, session) error) error {
	s, err := c.session(ctx, name)
	if err != nil {
		return err
	}
	return c.withSuppressed(ctx, s.kafka, s.tel.Logger, func(ctx context.Context, set *suppress.Set) error {
		if err := set.CheckOwner(); err != nil {
			return err
		}
		s.set = set
		return do(ctx, s)
	})
}

// withPublisher runs do, which publishes records, with the suppression set in deps. A dry run does not load it.
func (c *command) withPublisher(ctx context.Context, cfg ingest.Config, deps ingest.Deps,
	do func(context.Context, ingest.Deps) error) error {
	if cfg.DryRun {
		return do(ctx, deps)
	}
	return c.withSuppressed(ctx, cfg.Bus, deps.Logger, func(ctx context.Context, set *suppress.Set) error {
		deps.Suppressed = set
		return do(ctx, deps)
	})
}

// withEraser runs do with the configuration that erasures are published with.
func (c *command) withEraser(ctx context.Context, do func(context.Context, ingest.Config, ingest.Deps) error) error {
	return c.withOurs(ctx, "erase", func(ctx context.Context, s session) error {
		return do(ctx, ingest.Config{Bus: s.kafka}, ingest.Deps{Logger: s.tel.Logger, Suppressed: s.set})
	})
}

func (c *command) eraseCommand() *cobra.Command {
	order := record.Erasure{}
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "erase TYPE=VALUE...",
		Short: "Erase people: suppress, delete, and block re-import",
		Long: `Requests the erasure of the people with any of the identifiers. Types: ` + suppress.TypeNames() + `.
VALUE is the identifier, or "sha256:" and the SHA-256 of its normalized form in hexadecimal (64 hexadecimal digits
without the prefix are read as a hash too).

The command returns when no endpoint, search, discovery or webhook returns the person any more (--timeout limits the
wait). Stored data is deleted from tables and topics within a day. Records that are ingested, replayed or restored
later stay suppressed, also those with identifiers that no record has today. deploy/docs/erasure.md explains shared
identifiers, and what is retained: a keyed hash.

To erase many people: "muster ingest erasure FILE", or POST /ingest/v1/erasure.

Exit status: 0 the person is no longer shown; 1 accepted, but not in force within --timeout, or an identifier is
not suppressed; 2 not accepted.`,
		Example: `  muster erase email=ada@example.com
  muster erase network_username=ada-l codehost_username=ada user_id=42 --requested-by "Ada L., by letter" --reference "case 17"
  muster erase email=sha256:63c1dd951ffedf6f7fd968ad4efa39b8ed584f162f46e715114ee184f8de9201
  muster erase codehost_username=ada --scope codehost
  muster erase list
  muster erase status er_0193
  muster erase withdraw er_0193`,
		GroupID: "people",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if order.Identifiers, err = erasure.ParseIdentifiers(args); err != nil {
				return err
			}
			now := time.Now().UTC()
			if order.RequestedAt == "" {
				order.RequestedAt = record.VersionOf(now).String()
			}
			if order.RequestedBy == "" {
				order.RequestedBy = operatorName()
			}
			return c.withEraser(cmd.Context(), func(ctx context.Context, cfg ingest.Config, deps ingest.Deps) error {
				done, err := ingest.Erase(ctx, cfg, deps, order)
				if err != nil {
					return err
				}
				if shown := len(order.Identifiers) - len(erasure.Suppressed(deps.Suppressed, order.Identifiers)); shown > 0 {
					return errors.Join(printErased(cmd, done, len(order.Identifiers)), partlyError{fmt.Errorf(
						"%d identifiers are not suppressed: they were withdrawn at %s or later; pass a later "+
							"--requested-at", shown, order.RequestedAt)})
				}
				if !wantsJSON(cmd) {
					if err := printErased(cmd, done, len(order.Identifiers)); err != nil {
						return err
					}
				}
				notShown := awaitNotShown(ctx, cfg, done, wait, newBar(c.std.err, deps.Logger))
				if wantsJSON(cmd) {
					return errors.Join(printErased(cmd, done, len(order.Identifiers)), notShown)
				}
				if notShown == nil && wait > 0 && len(done) > 0 {
					fmt.Fprintf(cmd.OutOrStdout(),
						"The person is no longer shown by any endpoint. `muster erase status %s` reports when the "+
							"stored data is deleted.\n", done[0].RequestID)
					return c.printNotified(ctx, cmd.OutOrStdout(), done)
				}
				return notShown
			})
		},
	}
	cmd.Flags().StringVar(&order.Scope, "scope", "all", "records to erase: all, codehost or network")
	cmd.Flags().StringVar(&order.RequestedAt, "requested-at", "",
		"time of the request, as a date or an RFC 3339 time (default: now)")
	cmd.Flags().StringVar(&order.RequestedBy, "requested-by", "", "requester (default: the operator's user name)")
	cmd.Flags().
		StringVar(&order.Note, "reference", "", "reference of the request; it is stored, so without personal data")
	cmd.Flags().BoolVar(&order.Urgent, "now", false,
		"delete stored data immediately, not within a day; rewrites all tables that contain it")
	cmd.Flags().DurationVar(&wait, "timeout", time.Minute,
		"maximum time to wait until the person is no longer shown; 0 does not wait")
	addJSONFlag(cmd)
	cmd.AddCommand(c.eraseList(), c.eraseStatus(), c.eraseWithdraw(), c.eraseImport(), c.eraseReceipt(),
		c.eraseVerify(), c.eraseForeign())
	return cmd
}

// addWithinFlag adds --erasure-deadline, the maximum time that deleted data stays on disk.
func addWithinFlag(flags *pflag.FlagSet, within *time.Duration) {
	flags.DurationVar(within, "erasure-deadline", 24*time.Hour,
		"maximum time that erased data stays on disk, hidden (min 1m); tables are rewritten after a quarter of it, or "+
			"immediately if it is short; logs keep IDs a minute longer")
}

// operatorName returns a requester name for the user that runs the command.
func operatorName() string {
	u, err := user.Current()
	if err != nil {
		return "operator"
	}
	return "operator " + u.Username
}

// awaitNotShown waits until no endpoint returns the people of the requests. If an identifier is in a field outside the
// schema, that takes a scan of all records. It returns a partlyError after timeout, and does not wait if timeout is 0.
func awaitNotShown(ctx context.Context, cfg ingest.Config, requests []event.Erasure, timeout time.Duration,
	progress *bar) error {
	if timeout <= 0 || len(requests) == 0 {
		return nil
	}
	ids := make([]string, len(requests))
	for i, r := range requests {
		ids[i] = r.RequestID
	}
	if progress.terminal {
		progress.Begin("Waiting until the person is no longer shown", -1)
		defer progress.End()
	}
	err := erasure.AwaitSuppressed(ctx, cfg.Bus, ids, timeout, func() {
		if progress.terminal {
			progress.Set(0)
		}
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	return partlyError{fmt.Errorf("request accepted, but not in force after %v (is a projector running?): "+
		"`muster erase status %s` shows \"suppressed\" once the person is no longer shown", timeout, ids[0])}
}

// printNotified prints how many organizations are notified of the erasures.
func (c *command) printNotified(ctx context.Context, out io.Writer, requests []event.Erasure) error {
	all, err := c.erasures(ctx)
	if err != nil {
		return err
	}
	for _, r := range requests {
		s, err := erasing.Find(all, r.RequestID)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n", notified(s))
	}
	return nil
}

// notified returns how many organizations that received the person's records are notified, and which cannot be.
func notified(s erasing.Status) string {
	text := fmt.Sprintf("organizations notified: %d", len(s.Notified))
	if len(s.Unreachable) > 0 {
		text += fmt.Sprintf("; %d without an endpoint for events (PUT /v1/webhook): %s", len(s.Unreachable),
			strings.Join(s.Unreachable, ", "))
	}
	return text
}

func printErased(cmd *cobra.Command, done []event.Erasure, named int) error {
	if wantsJSON(cmd) {
		if done == nil {
			done = []event.Erasure{}
		}
		return printJSON(cmd, done)
	}
	if len(done) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "Nothing to do: the same or a newer request exists.")
		return nil
	}
	for _, e := range done {
		fmt.Fprintf(cmd.OutOrStdout(), "request %s accepted at %s (%d of %d identifiers were new, scope %s)\n",
			e.RequestID, e.At.UTC().Format(time.RFC3339), len(e.Identifiers), named, e.Scope)
	}
	return nil
}

func (c *command) erasures(ctx context.Context) ([]erasing.Status, error) {
	kafka, err := c.kafka()
	if err != nil {
		return nil, err
	}
	return erasing.Requests(ctx, kafka)
}

func (c *command) eraseList() *cobra.Command {
	return addJSONFlag(&cobra.Command{
		Use:   "list",
		Short: "List requests with requester, time and state, oldest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := c.erasures(cmd.Context())
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, all)
			}
			tw := newTable(cmd.OutOrStdout(), "REQUEST\tSTATE\tSCOPE\tIDENTIFIERS\tREQUESTED\tVIA\tBY")
			for _, s := range all {
				fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.RequestID, s.State, s.Scope, typesOf(s),
					s.RequestedAt, s.Via, s.By)
			}
			return tw.Flush()
		},
	})
}

// typesOf formats the types of a request's identifiers with their counts.
func typesOf(s erasing.Status) string {
	count := make(map[string]int)
	for _, i := range s.Identifiers {
		count[i.Type]++
	}
	var out []string
	for _, t := range slices.Sorted(maps.Keys(count)) {
		if count[t] > 1 {
			t = fmt.Sprintf("%s x%d", t, count[t])
		}
		out = append(out, t)
	}
	return strings.Join(out, ", ")
}

func (c *command) eraseStatus() *cobra.Command {
	return addJSONFlag(&cobra.Command{
		Use:   "status [REQUEST]",
		Short: "Show the state of a request, or counts by state",
		Long: `States: requested (in force, the person is not shown), suppressed (the stored data was found and hidden),
deleted (the data is physically deleted), withdrawn. A prefix of the request ID is enough.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := c.erasures(cmd.Context())
			if err != nil {
				return err
			}
			if len(args) == 0 {
				count := map[erasing.State]int{}
				for _, s := range all {
					count[s.State]++
				}
				if wantsJSON(cmd) {
					return printJSON(cmd, map[string]any{"requests": len(all), "states": count})
				}
				fmt.Fprintf(cmd.OutOrStdout(),
					"%d requests: %d requested, %d suppressed, %d deleted, %d withdrawn\n", len(all),
					count[erasing.Requested], count[erasing.Suppressed], count[erasing.Deleted],
					count[erasing.Withdrawn])
				return nil
			}
			s, err := erasing.Find(all, args[0])
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, s)
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out,
				"request      %s\nstate        %s\nscope        %s\nidentifiers  %s\nrequested    %s\nreceived     "+
					"%s, by %s, via %s (%s)\n",
				s.RequestID, s.State, s.Scope, typesOf(s), s.RequestedAt, s.At.Format(time.RFC3339), s.By,
				s.Via, s.Place)
			for _, line := range []struct {
				name string
				at   time.Time
			}{{"suppressed", s.SuppressedAt}, {"deleted", s.DeletedAt}, {"withdrawn", s.WithdrawnAt}} {
				if !line.at.IsZero() {
					fmt.Fprintf(out, "%-12s %s\n", line.name, line.at.Format(time.RFC3339))
				}
			}
			if !s.SuppressedAt.IsZero() {
				fmt.Fprintf(out, "receivers    %s\n", notified(s))
			}
			return nil
		},
	})
}

func (c *command) eraseWithdraw() *cobra.Command {
	var by, note string
	cmd := &cobra.Command{
		Use:   "withdraw REQUEST | withdraw TYPE=VALUE...",
		Short: "Withdraw a request, or the requests for some identifiers",
		Long: `Ends the suppression of the people of a request, unless a later request names them. Deleted data does
not come back: ingest the records again, with --again if they were published before.

Exit status: 0 no longer suppressed; 1 none of the identifiers is suppressed, or some still are; 2 it failed.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if by == "" {
				by = operatorName()
			}
			return c.withEraser(cmd.Context(), func(ctx context.Context, cfg ingest.Config, deps ingest.Deps) error {
				if strings.Contains(args[0], "=") {
					identifiers, err := erasure.ParseIdentifiers(args)
					if err != nil {
						return err
					}
					held := erasure.Suppressed(deps.Suppressed, identifiers)
					if len(held) == 0 {
						return partlyError{errors.New(
							"none of these identifiers is suppressed: there is nothing to withdraw")}
					}
					done, err := ingest.Erase(ctx, cfg, deps, record.Erasure{
						Identifiers: held, RequestedAt: record.VersionOf(time.Now()).String(), RequestedBy: by,
						Note: note, Deleted: true,
					})
					if err != nil {
						return err
					}
					err = printWithdrawn(cmd, done, len(identifiers))
					if left := len(erasure.Suppressed(deps.Suppressed, held)); err == nil && left > 0 {
						err = partlyError{fmt.Errorf(
							"%d identifiers are still suppressed: their request is dated in the future; withdraw "+
								"the request by ID (muster erase list)", left)}
					}
					return err
				}
				if len(args) > 1 {
					return errors.New("too many requests: withdraw one at a time")
				}
				all, err := erasing.Requests(ctx, cfg.Bus)
				if err != nil {
					return err
				}
				s, err := erasing.Find(all, args[0])
				if err != nil {
					return err
				}
				done, err := ingest.WithdrawErasure(ctx, cfg, deps, s.Erasure, by, note)
				if err != nil {
					return err
				}
				return printWithdrawn(cmd, []event.Erasure{done}, len(s.Identifiers))
			})
		},
	}
	cmd.Flags().StringVar(&by, "requested-by", "", "requester (default: the operator's user name)")
	cmd.Flags().StringVar(&note, "reference", "", "reason, for the log")
	addJSONFlag(cmd)
	return cmd
}

func printWithdrawn(cmd *cobra.Command, done []event.Erasure, named int) error {
	if wantsJSON(cmd) {
		return printJSON(cmd, done)
	}
	n := 0
	for _, e := range done {
		n += len(e.Identifiers)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d of %d identifiers are no longer suppressed.\n", n, named)
	return nil
}
