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

// withSuppressed runs do with the set of erased people.
func (c *command) withSuppressed(ctx context.Context, kafka bus.Config, tel *service.Telemetry, do func(context.Context, *suppress.Set) error) error {
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

// withOurs is withSuppressed for what another root secret than the instance's would be wrong for, also before
// anybody was erased.
func (c *command) withOurs(ctx context.Context, kafka bus.Config, tel *service.Telemetry, do func(context.Context, *suppress.Set) error) error {
	return c.withSuppressed(ctx, kafka, tel, func(ctx context.Context, set *suppress.Set) error {
		if err := set.Ours(); err != nil {
			return err
		}
		return do(ctx, set)
	})
}

// publishing runs do, which publishes records, with who was erased.
func (c *command) publishing(ctx context.Context, cfg ingest.Config, deps ingest.Deps, tel *service.Telemetry, do func(context.Context, ingest.Deps) error) error {
	if cfg.DryRun {
		return do(ctx, deps)
	}
	return c.withSuppressed(ctx, cfg.Bus, tel, func(ctx context.Context, set *suppress.Set) error {
		deps.Suppressed = set
		return do(ctx, deps)
	})
}

// erasing runs do with what erasures are published with.
func (c *command) erasing(ctx context.Context, do func(context.Context, ingest.Config, ingest.Deps) error) error {
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
		Short: "Forget people: nobody is shown them any more, their data is removed, and they do not come back",
		Long: `Orders that whoever has one of the identifiers is forgotten. Types: ` + suppress.TypeNames() + `.
A VALUE is the identifier, or sha256: and the SHA-256 of its standard form in hexadecimal (64 digits alone are
taken for one too).

The command returns when no endpoint, search, discovery or webhook shows the person any more (--timeout bounds
the wait); what is stored of them is removed from tables and topics within the day; and nothing that is ingested, replayed or restored brings them
back. Identifiers that nobody has today hold for tomorrow's records. deploy/docs/erasure.md says who shares an
identifier, and what is kept: a keyed hash of it.

Many at once: "muster ingest erasure FILE", or POST /ingest/v1/erasure.

Exit status: 0 the person is no longer shown; 1 accepted, but not in force within --timeout, or an identifier is
not suppressed; 2 not accepted.`,
		Example: `  muster erase email=ada@example.com
  muster erase network_username=ada-l codehost_username=ada user_id=42 --by "Ada L., by letter" --note "case 17"
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
			return c.erasing(cmd.Context(), func(ctx context.Context, cfg ingest.Config, deps ingest.Deps) error {
				done, err := ingest.Erase(ctx, cfg, deps, order)
				if err != nil {
					return err
				}
				if shown := len(order.Identifiers) - len(suppressedBy(deps.Suppressed, order.Identifiers)); shown > 0 {
					return errors.Join(printErased(cmd, done, len(order.Identifiers), asJSON), partlyError{fmt.Errorf(
						"%d identifiers are not suppressed: a withdrawal of them is dated %s or later; give a later --requested-at", shown, order.RequestedAt)})
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
					fmt.Fprintf(cmd.OutOrStdout(), "The person is no longer shown by any endpoint. `muster erase status %s` reports when the stored data is removed.\n", done[0].RequestID)
				}
				return masked
			})
		},
	}
	cmd.Flags().StringVar(&order.Scope, "scope", "all", "whose records: all, or those of one webset: codehost or network")
	cmd.Flags().StringVar(&order.RequestedAt, "requested-at", "", "when it was asked for: a date or an RFC 3339 time (default: now)")
	cmd.Flags().StringVar(&order.RequestedBy, "by", "", "who asked (default: the operator's user name)")
	cmd.Flags().StringVar(&order.Note, "note", "", "where the request is filed; it is kept, so name nobody")
	cmd.Flags().BoolVar(&order.Urgent, "now", false, "remove what is stored at once, and not within the day: it costs a rewriting of what holds it")
	cmd.Flags().DurationVar(&wait, "timeout", time.Minute, "how long to wait until the person is no longer shown; 0 does not wait")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.AddCommand(c.eraseList(), c.eraseStatus(), c.eraseWithdraw(), c.eraseImport(), c.eraseReceipt(), c.eraseVerify(), c.eraseForeign())
	return cmd
}

// addWithinFlag adds the flag that says how long erased data may stay on disk.
func addWithinFlag(flags *pflag.FlagSet, within *time.Duration) {
	flags.DurationVar(within, "erase-within", 24*time.Hour, "how long what was erased may stay on disk, hidden: tables are rewritten after a quarter of it, or at once where it is short (1m at least; logs keep ids a minute longer)")
}

// operatorName is who runs the command.
func operatorName() string {
	u, err := user.Current()
	if err != nil {
		return "operator"
	}
	return "operator " + u.Username
}

// parseIdentifiers reads TYPE=VALUE. Its errors do not repeat values.
func parseIdentifiers(args []string) ([]record.ErasureIdentifier, error) {
	out := make([]record.ErasureIdentifier, len(args))
	for i, a := range args {
		name, value, ok := strings.Cut(a, "=")
		if !ok {
			return nil, fmt.Errorf("argument %d is not TYPE=VALUE; the types are %s", i+1, suppress.TypeNames())
		}
		if !slices.Contains(suppress.Types(), suppress.Type(name)) {
			return nil, fmt.Errorf("argument %d: %q is no type of identifier; the types are %s", i+1, name, suppress.TypeNames())
		}
		out[i].Type = name
		sum, prefixed := strings.CutPrefix(value, "sha256:")
		raw, err := hex.DecodeString(sum)
		switch whole := err == nil && len(raw) == 32; {
		case prefixed && !whole:
			return nil, fmt.Errorf("argument %d: what follows sha256: is not a SHA-256 in hexadecimal (64 digits)", i+1)
		case whole:
			out[i].SHA256 = strings.ToLower(sum)
		default:
			if _, err := suppress.Standard(suppress.Type(name), value); err != nil {
				return nil, fmt.Errorf("argument %d: %s %w", i+1, name, err)
			}
			out[i].Value = record.Scalar(value)
		}
	}
	return out, nil
}

// suppressedBy returns those of the identifiers, which were checked, that suppress somebody.
func suppressedBy(set *suppress.Set, identifiers []record.ErasureIdentifier) (out []record.ErasureIdentifier) {
	for _, i := range identifiers {
		t, sum := suppress.Type(i.Type), [sha256.Size]byte{}
		if _, err := hex.Decode(sum[:], []byte(i.SHA256)); err != nil || i.SHA256 == "" {
			standard, _ := suppress.Standard(t, string(i.Value))
			sum = suppress.Sum(standard)
		}
		if set.Suppressed(set.Key().Hash(t, sum)) {
			out = append(out, i)
		}
	}
	return out
}

// awaitNotShown waits until no endpoint shows the people of requests: a person with an identifier in a field that the schema
// does not know is found by reading all records, which takes time. It returns a partlyError after the timeout, and nil at once
// if that is 0.
func awaitNotShown(ctx context.Context, cfg ingest.Config, requests []event.Erasure, timeout time.Duration, progress *bar) error {
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
	return partlyError{fmt.Errorf("the request is accepted, but not in force after %v (is a projector running?); `muster erase status %s` "+
		"shows \"masked\" once the person is no longer shown", timeout, ids[0])}
}

func printErased(cmd *cobra.Command, done []event.Erasure, named int, asJSON bool) error {
	if asJSON {
		if done == nil {
			done = []event.Erasure{}
		}
		return printJSON(cmd, done)
	}
	if len(done) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "Nothing was done: this was asked for before, or something newer was.")
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
		Short: "List the requests, the oldest first: who asked, when, and how far they are",
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
				fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.RequestID, s.State, s.Scope, typesOf(s), s.RequestedAt, s.Via, s.By)
			}
			return tw.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// typesOf lists the types of a request's identifiers with how often each occurs.
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
		Short: "Tell how far a request is, or how many are how far",
		Long: `States: requested (in force, nobody is shown the person), masked (what is stored of them was found), removed
(it is physically gone), withdrawn. The beginning of a request's id is enough.`,
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
				fmt.Fprintf(cmd.OutOrStdout(), "%d requests: %d requested, %d masked, %d removed, %d withdrawn\n", len(all),
					count[ingest.ErasurePending], count[ingest.ErasureMasked], count[ingest.ErasureRemoved], count[ingest.ErasureWithdrawn])
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
			fmt.Fprintf(out, "request      %s\nstate        %s\nscope        %s\nidentifiers  %s\nrequested    %s\nreceived     %s, by %s, via %s (%s)\n",
				s.RequestID, s.State, s.Scope, typesOf(s), s.RequestedAt, s.At.Format(time.RFC3339), s.By, s.Via, s.Place)
			for _, line := range []struct {
				name string
				at   time.Time
			}{{"masked", s.MaskedAt}, {"removed", s.RemovedAt}, {"withdrawn", s.WithdrawnAt}} {
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
		Short: "Withdraw a request, or what was asked for of some identifiers",
		Long: `Lets the people in again whom a request kept out, as far as no later request names them. What was removed is
not there any more: ingest their records again, with --again for what was published before.

Exit status: 0 they are let in; 1 none of the identifiers is suppressed, or some still are; 2 it could not be done.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if by == "" {
				by = operatorName()
			}
			return c.erasing(cmd.Context(), func(ctx context.Context, cfg ingest.Config, deps ingest.Deps) error {
				if strings.Contains(args[0], "=") {
					identifiers, err := parseIdentifiers(args)
					if err != nil {
						return err
					}
					held := suppressedBy(deps.Suppressed, identifiers)
					if len(held) == 0 {
						return partlyError{errors.New("none of these identifiers is suppressed: there is nothing to withdraw")}
					}
					done, err := ingest.Erase(ctx, cfg, deps, record.Erasure{
						Identifiers: held, RequestedAt: record.VersionOf(time.Now()).String(), RequestedBy: by, Note: note, Deleted: true,
					})
					if err != nil {
						return err
					}
					err = printWithdrawn(cmd, done, len(identifiers), asJSON)
					if left := len(suppressedBy(deps.Suppressed, held)); err == nil && left > 0 {
						err = partlyError{fmt.Errorf("%d identifiers are still suppressed: what was asked for is dated in the future; withdraw the request (muster erase list)", left)}
					}
					return err
				}
				if len(args) > 1 {
					return errors.New("withdraw one request at a time")
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
	cmd.Flags().StringVar(&by, "by", "", "who withdraws (default: the operator's user name)")
	cmd.Flags().StringVar(&note, "note", "", "why, for the log")
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
	fmt.Fprintf(cmd.OutOrStdout(), "%d of %d identifiers are not suppressed any more.\n", n, named)
	return nil
}
