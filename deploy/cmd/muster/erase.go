package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os/user"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"muster/deploy/suppression"
	"muster/ingest"
	"muster/platform/bus"
	"muster/platform/service"
	"muster/schemas/event"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// withSuppressed runs do with the loaded suppression set.
func (c *command) withSuppressed(ctx context.Context, kafka bus.Config, tel *service.Telemetry,
	do func(context.Context, *suppress.Set) error) error {
	secret, err := c.rootSecret()
	if err != nil {
		return err
	}
	follower, err := suppression.New(secret, kafka, tel.Logger)
	if err != nil {
		return err
	}
	return suppression.With(ctx, follower, do)
}

// withOurs is like withSuppressed, but it fails if the root secret is not the one of the instance. Without this check
// the first erasure with a wrong root secret would succeed.
func (c *command) withOurs(ctx context.Context, kafka bus.Config, tel *service.Telemetry,
	do func(context.Context, *suppress.Set) error) error {
	return c.withSuppressed(ctx, kafka, tel, func(ctx context.Context, set *suppress.Set) error {
		if err := set.CheckOwner(); err != nil {
			return err
		}
		return do(ctx, set)
	})
}

// withPublisher runs do, which publishes records, with the suppression set in deps. A dry run does not load it.
func (c *command) withPublisher(ctx context.Context, cfg ingest.Config, deps ingest.Deps, tel *service.Telemetry,
	do func(context.Context, ingest.Deps) error) error {
	if cfg.DryRun {
		return do(ctx, deps)
	}
	return c.withSuppressed(ctx, cfg.Bus, tel, func(ctx context.Context, set *suppress.Set) error {
		deps.Suppressed = set
		return do(ctx, deps)
	})
}

// withEraser runs do with the configuration that erasures are published with.
func (c *command) withEraser(ctx context.Context, do func(context.Context, ingest.Config, ingest.Deps) error) error {
	tel, err := c.telemetry(ctx, "erase")
	if err != nil {
		return err
	}
	kafka, err := c.kafka()
	if err != nil {
		return err
	}
	return c.withOurs(ctx, kafka, tel, func(ctx context.Context, set *suppress.Set) error {
		return do(ctx, ingest.Config{Bus: kafka}, ingest.Deps{Logger: tel.Logger, Suppressed: set})
	})
}

func (c *command) eraseCommand() *cobra.Command {
	order := record.Erasure{}
	var asJSON bool
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
			if order.Identifiers, err = parseIdentifiers(args); err != nil {
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
				if shown := len(order.Identifiers) - len(suppressedBy(deps.Suppressed, order.Identifiers)); shown > 0 {
					return errors.Join(printErased(cmd, done, len(order.Identifiers), asJSON), partlyError{fmt.Errorf(
						"%d identifiers are not suppressed: they were withdrawn at %s or later; pass a later "+
							"--requested-at", shown, order.RequestedAt)})
				}
				if !asJSON {
					if err := printErased(cmd, done, len(order.Identifiers), false); err != nil {
						return err
					}
				}
				masked := awaitNotShown(ctx, cfg, done, wait, newBar(c.std.err, deps.Logger))
				if asJSON {
					return errors.Join(printErased(cmd, done, len(order.Identifiers), true), masked)
				}
				if masked == nil && wait > 0 && len(done) > 0 {
					fmt.Fprintf(cmd.OutOrStdout(),
						"The person is no longer shown by any endpoint. `muster erase status %s` reports when the "+
							"stored data is removed.\n", done[0].RequestID)
				}
				return masked
			})
		},
	}
	cmd.Flags().StringVar(&order.Scope, "scope", "all", "records to erase: all, codehost or network")
	cmd.Flags().StringVar(&order.RequestedAt, "requested-at", "",
		"time of the request, as a date or an RFC 3339 time (default: now)")
	cmd.Flags().StringVar(&order.RequestedBy, "requested-by", "", "requester (default: the operator's user name)")
	cmd.Flags().StringVar(&order.Note, "reference", "", "reference of the request; it is stored, so without personal data")
	cmd.Flags().BoolVar(&order.Urgent, "now", false,
		"delete stored data immediately, not within a day; rewrites all tables that contain it")
	cmd.Flags().DurationVar(&wait, "timeout", time.Minute,
		"maximum time to wait until the person is no longer shown; 0 does not wait")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
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

// parseIdentifiers parses TYPE=VALUE arguments. Its errors do not contain values.
func parseIdentifiers(args []string) ([]record.ErasureIdentifier, error) {
	out := make([]record.ErasureIdentifier, len(args))
	for i, a := range args {
		name, value, ok := strings.Cut(a, "=")
		if !ok {
			return nil, fmt.Errorf("argument %d is not TYPE=VALUE; the types are %s", i+1, suppress.TypeNames())
		}
		if !slices.Contains(suppress.Types(), suppress.Type(name)) {
			return nil,
				fmt.Errorf("argument %d: unknown identifier type %q; the types are %s", i+1, name, suppress.TypeNames())
		}
		out[i].Type = name
		sum, prefixed := strings.CutPrefix(value, "sha256:")
		raw, err := hex.DecodeString(sum)
		switch whole := err == nil && len(raw) == 32; {
		case prefixed && !whole:
			return nil, fmt.Errorf("argument %d: invalid SHA-256 after sha256: want 64 hexadecimal digits", i+1)
		case whole:
			out[i].SHA256 = strings.ToLower(sum)
		default:
			if _, err := suppress.Normalize(suppress.Type(name), value); err != nil {
				return nil, fmt.Errorf("argument %d: %s %w", i+1, name, err)
			}
			out[i].Value = record.Scalar(value)
		}
	}
	return out, nil
}

// suppressedBy returns the identifiers that are suppressed. All of them must be valid.
func suppressedBy(set *suppress.Set, identifiers []record.ErasureIdentifier) (out []record.ErasureIdentifier) {
	for _, i := range identifiers {
		t, sum := suppress.Type(i.Type), [sha256.Size]byte{}
		if _, err := hex.Decode(sum[:], []byte(i.SHA256)); err != nil || i.SHA256 == "" {
			standard, _ := suppress.Normalize(t, string(i.Value))
			sum = suppress.Sum(standard)
		}
		if set.Suppressed(set.Key().Hash(t, sum)) {
			out = append(out, i)
		}
	}
	return out
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
	err := awaitMasked(ctx, cfg, ids, timeout, func() {
		if progress.terminal {
			progress.Set(0)
		}
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	return partlyError{fmt.Errorf("request accepted, but not in force after %v (is a projector running?): "+
		"`muster erase status %s` shows \"masked\" once the person is no longer shown", timeout, ids[0])}
}

func printErased(cmd *cobra.Command, done []event.Erasure, named int, asJSON bool) error {
	if asJSON {
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

func (c *command) erasures(ctx context.Context) ([]ingest.ErasureStatus, error) {
	kafka, err := c.kafka()
	if err != nil {
		return nil, err
	}
	return ingest.Erasures(ctx, kafka)
}

func (c *command) eraseList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List requests with requester, time and state, oldest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := c.erasures(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, all)
			}
			tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(tw, "REQUEST\tSTATE\tSCOPE\tIDENTIFIERS\tREQUESTED\tVIA\tBY")
			for _, s := range all {
				fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.RequestID, s.State, s.Scope, typesOf(s),
					s.RequestedAt, s.Via, s.By)
			}
			return tw.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// typesOf formats the types of a request's identifiers with their counts.
func typesOf(s ingest.ErasureStatus) string {
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
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status [REQUEST]",
		Short: "Show the state of a request, or counts by state",
		Long: `States: requested (in force, the person is not shown), masked (the stored data was found and hidden),
removed (the data is physically deleted), withdrawn. A prefix of the request ID is enough.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := c.erasures(cmd.Context())
			if err != nil {
				return err
			}
			if len(args) == 0 {
				count := map[ingest.ErasureState]int{}
				for _, s := range all {
					count[s.State]++
				}
				if asJSON {
					return printJSON(cmd, map[string]any{"requests": len(all), "states": count})
				}
				fmt.Fprintf(cmd.OutOrStdout(),
					"%d requests: %d requested, %d masked, %d removed, %d withdrawn\n", len(all),
					count[ingest.ErasurePending], count[ingest.ErasureSuppressed], count[ingest.ErasureDeleted],
					count[ingest.ErasureWithdrawn])
				return nil
			}
			s, err := ingest.FindErasure(all, args[0])
			if err != nil {
				return err
			}
			if asJSON {
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
			}{{"masked", s.SuppressedAt}, {"removed", s.DeletedAt}, {"withdrawn", s.WithdrawnAt}} {
				if !line.at.IsZero() {
					fmt.Fprintf(out, "%-12s %s\n", line.name, line.at.Format(time.RFC3339))
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (c *command) eraseWithdraw() *cobra.Command {
	var asJSON bool
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
					identifiers, err := parseIdentifiers(args)
					if err != nil {
						return err
					}
					held := suppressedBy(deps.Suppressed, identifiers)
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
					err = printWithdrawn(cmd, done, len(identifiers), asJSON)
					if left := len(suppressedBy(deps.Suppressed, held)); err == nil && left > 0 {
						err = partlyError{fmt.Errorf(
							"%d identifiers are still suppressed: their request is dated in the future; withdraw "+
								"the request by ID (muster erase list)", left)}
					}
					return err
				}
				if len(args) > 1 {
					return errors.New("too many requests: withdraw one at a time")
				}
				all, err := ingest.Erasures(ctx, cfg.Bus)
				if err != nil {
					return err
				}
				s, err := ingest.FindErasure(all, args[0])
				if err != nil {
					return err
				}
				done, err := ingest.WithdrawErasure(ctx, cfg, deps, s, by, note)
				if err != nil {
					return err
				}
				return printWithdrawn(cmd, []event.Erasure{done}, len(s.Identifiers), asJSON)
			})
		},
	}
	cmd.Flags().StringVar(&by, "requested-by", "", "requester (default: the operator's user name)")
	cmd.Flags().StringVar(&note, "reference", "", "reason, for the log")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printWithdrawn(cmd *cobra.Command, done []event.Erasure, named int, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, done)
	}
	n := 0
	for _, e := range done {
		n += len(e.Identifiers)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d of %d identifiers are no longer suppressed.\n", n, named)
	return nil
}
