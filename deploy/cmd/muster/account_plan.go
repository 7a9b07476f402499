package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"muster/deploy/internal/instance"
	"muster/deploy/internal/status"
	"muster/platform/bus"
	"muster/projector"
	queryapi "muster/query-api"
	"muster/schemas/event"
)

// usageView is the usage of an organization this month, from the read model.
type usageView struct {
	Period            string     `json:"period"`
	Requests          int64      `json:"requests"`
	RequestsRemaining int64      `json:"requests_remaining"`
	Credits           int64      `json:"credits"`
	CreditsRemaining  int64      `json:"credits_remaining"`
	Endpoints         []lineView `json:"endpoints,omitempty"`
}

type lineView struct {
	Endpoint string `json:"endpoint"`
	Key      string `json:"key"`
	Calls    uint64 `json:"calls"`
	Requests int64  `json:"requests"`
	Credits  int64  `json:"credits"`
}

// keyView is a key without its hash.
type keyView struct {
	event.Key
	Hash       string     `json:"sha256,omitempty"` // shadows the hash of the embedded key
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
}

func keyViews(keys []event.Key, used map[string]time.Time) []keyView {
	out := []keyView{}
	for _, k := range keys {
		v := keyView{Key: k}
		if at, ok := used[k.ID]; ok {
			v.LastUsedAt = &at
		}
		out = append(out, v)
	}
	return out
}

// usageOf returns this month's usage of an organization, and when each of its keys was last used.
func (c *command) usageOf(ctx context.Context, o event.Organization) (view usageView, used map[string]time.Time,
	err error) {
	view.Period = event.PeriodOf(time.Now())
	err = c.withReadModels(ctx, func(conn driver.Conn) error {
		lines, err := queryapi.ReadUsage(ctx, conn, o.ID, view.Period)
		if err != nil {
			return err
		}
		for _, l := range lines {
			view.Requests += l.Requests
			view.Credits += l.Credits
			view.Endpoints = append(view.Endpoints, lineView{l.Endpoint, l.Key, l.Calls, l.Requests, l.Credits})
		}
		used, err = queryapi.LastUsed(ctx, conn, o.ID)
		return err
	})
	limits := o.LimitsOf()
	view.RequestsRemaining = max(0, limits.MonthlyRequests-view.Requests)
	view.CreditsRemaining = max(0, limits.Credits-view.Credits)
	return view, used, err
}

// planFlags are the limits of a plan on the command line; -1 means not given.
type planFlags struct{ rpm, monthly, credits int64 }

// add registers the flags; otherwise describes the default in their help.
func (f *planFlags) add(cmd *cobra.Command, otherwise string) {
	flags := cmd.Flags()
	flags.Int64Var(&f.rpm, "rpm", -1, "requests per minute and key (default: "+otherwise+")")
	flags.Int64Var(&f.monthly, "monthly-requests", -1,
		"requests per month to the enrichment endpoints (default: "+otherwise+")")
	flags.Int64Var(&f.credits, "credits", -1, "credits per month (default: "+otherwise+")")
}

// check returns an error if a given limit is negative.
func (f *planFlags) check(cmd *cobra.Command) error {
	for _, n := range []struct {
		flag  string
		value int64
	}{{"rpm", f.rpm}, {"monthly-requests", f.monthly}, {"credits", f.credits}} {
		if n.value < 0 && cmd.Flags().Changed(n.flag) {
			return fmt.Errorf("--%s: invalid value %d: want 0 or more", n.flag, n.value)
		}
	}
	return nil
}

func (c *command) accountPlan() *cobra.Command {
	var numbers planFlags
	cmd := &cobra.Command{
		Use:   "plan ORGANIZATION PLAN",
		Short: "Change the plan of an organization, or its limits",
		Long: `Changes the plan of an organization, or the limits of its plan, from the next call on. Usage of the
current month is unchanged.

  name of the current plan  changes the given limits; other limits and the prices stay
  default, development      limits and prices of the built-in plan, with the given limits
  any other name            needs all three limits; the prices stay

Prices come from a file: "muster account apply".`,
		Example: `  muster account plan ORGANIZATION growth --rpm 600 --monthly-requests 100000 --credits 50000
  muster account plan ORGANIZATION growth --credits 80000   other limits stay`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := numbers.check(cmd); err != nil {
				return err
			}
			return c.withAccounts(cmd.Context(), func(a *queryapi.Accounts) error {
				o, err := a.ChangePlan(cmd.Context(), args[0], args[1], numbers.rpm, numbers.monthly, numbers.credits)
				if err != nil {
					return err
				}
				if wantsJSON(cmd) {
					return printJSON(cmd, viewOf(o))
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "organization %s has the plan %s\n", o.ID,
					queryapi.Plan{Name: o.Plan, Limits: o.LimitsOf()})
				return err
			})
		},
	}
	numbers.add(cmd, "unchanged, or the built-in plan's")
	addJSONFlag(cmd)
	return cmd
}

func (c *command) accountApply() *cobra.Command {
	return addJSONFlag(&cobra.Command{
		Use:   "apply FILE",
		Short: "Apply organizations, plans and keys from a YAML file",
		Long: `Creates and changes organizations, plans and keys as a YAML file describes, and prints the changes. It is
idempotent. What is not in the file stays unchanged. New keys are printed once. FILE - is standard input.

Organizations and keys are matched by name. If several organizations have the same name, set "id".
"revoked: true" revokes every key with the name; scopes and expiry apply to all of them.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			content, err := readInput(cmd, args[0])
			if err != nil {
				return err
			}
			file, err := queryapi.ReadAccountsFile(content)
			if err != nil {
				return err
			}
			return c.withAccounts(cmd.Context(), func(a *queryapi.Accounts) error {
				done, err := a.Apply(cmd.Context(), file)
				if wantsJSON(cmd) {
					return errors.Join(printJSON(cmd, done), err)
				}
				err = errors.Join(printApplied(cmd, done), err)
				if len(done) == 0 && err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), "no changes")
				}
				return err
			})
		},
	})
}

// printApplied prints what applying an accounts file changed.
func printApplied(cmd *cobra.Command, done []queryapi.Applied) error {
	var b strings.Builder
	for _, d := range done {
		fmt.Fprintf(&b, "%s (%s): %s\n", d.Organization, d.OrganizationID, d.Change)
		if d.Key != "" {
			fmt.Fprintf(&b, "  key %s\n  Save the key: it is not shown again.\n", d.Key)
		}
	}
	_, err := io.WriteString(cmd.OutOrStdout(), b.String())
	return err
}

// maxAccountsFile is the maximum size of an accounts file, in bytes.
const maxAccountsFile = 16 << 20

func readInput(cmd *cobra.Command, path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxAccountsFile))
	}
	return os.ReadFile(path)
}

func (c *command) keyRotate() *cobra.Command {
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "rotate KEY_ID",
		Short: "Replace a key, with a grace period for the old one",
		Long: `Creates a key with the name, scopes and expiry of an old one, and shows it once. The old key stays
valid for --grace, so that callers can switch. KEY_ID is the public part of the key, the 8 characters after mk_live_,
or the whole key.`,
		Args: cobra.ExactArgs(1),
		RunE: c.onAccounts(func(cmd *cobra.Command, args []string, a *queryapi.Accounts) error {
			old, created, key, err := a.RotateKey(cmd.Context(), keyID(args[0]), grace)
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				organization, err := a.Organization(old.OrganizationID)
				if err != nil {
					return err
				}
				view := viewOf(organization)
				view.Key, view.Keys = key.Reveal(), keyViews([]event.Key{old, created}, nil)
				return printJSON(cmd, view)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(),
				"key %s\nSave the key: it is not shown again. The old one, %s, is valid until %s.\n",
				key.Reveal(), old.ID, old.ExpiresAt.Format(time.RFC3339))
			return err
		}),
	}
	cmd.Flags().DurationVar(&grace, "grace", 24*time.Hour, "how long the old key stays valid")
	addJSONFlag(cmd)
	return cmd
}

func (c *command) accountReconcile() *cobra.Command {
	var period, organization, observedPath string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "reconcile",
		Short: "Compare ledger, read model and responses",
		Long: `Reads the ledger of a month from its beginning and compares it with the read model, call by call.
With --observed it also compares what callers received: a file of JSON lines {"request_id": "...", "credits": 1}
with the X-Request-Id and X-Credits-Charged of their responses.

It waits until earlier calls are in both, like "muster status --wait". If --timeout passes first, it prints a warning
and compares what is there: calls that are not projected yet count as differences.

Exit status: 0 all agree, or differ only in favor of callers; 1 they differ; 2 they could not be read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			seen, err := readSeen(observedPath)
			if err != nil {
				return err
			}
			kafka, err := c.kafka()
			if err != nil {
				return err
			}
			if err := c.awaitLedger(ctx, kafka, timeout); err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "muster: the latest calls may be missing on a side: %v\n", err)
			}
			if organization, err = c.organizationID(ctx, organization); err != nil {
				return err
			}
			return c.withReadModels(ctx, func(conn driver.Conn) error {
				r, err := queryapi.Reconcile(ctx, kafka, conn, period, organization, seen)
				if err != nil {
					return err
				}
				if wantsJSON(cmd) {
					err = printJSON(cmd, r)
				} else {
					err = printReconciliation(cmd, r)
				}
				if err == nil && !r.OK() {
					err = partlyError{fmt.Errorf("%d calls differ", r.Different)}
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&period, "period", event.PeriodOf(time.Now()), "month in UTC, such as 2026-11")
	cmd.Flags().StringVar(&organization, "organization", "", "ID or name of the organization to compare (default: all)")
	cmd.Flags().StringVar(&observedPath, "observed", "", "file of the credits that callers received")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute,
		"maximum time to wait for calls that are not projected yet")
	addJSONFlag(cmd)
	return cmd
}

// awaitLedger waits until calls that were answered before are in the ledger and in its read model.
func (c *command) awaitLedger(ctx context.Context, kafka bus.Config, timeout time.Duration) error {
	in, err := instance.Find(c.dataDir, c.getenv)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("--timeout of %s passed", timeout))
	defer cancel()
	return status.Wait(ctx,
		status.Source{AdminURL: in.AdminURL, Kafka: kafka, Group: projector.UsageGroup,
			Topics: []string{event.TopicUsage}}, nil)
}

func readSeen(path string) ([]queryapi.ObservedCalls, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	seen := []queryapi.ObservedCalls{}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var s queryapi.ObservedCalls
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil || s.RequestID == "" {
			return nil, fmt.Errorf("%s:%d: invalid line: want {\"request_id\": \"...\", \"credits\": 1}", path, n)
		}
		seen = append(seen, s)
	}
	return seen, lines.Err()
}

func printReconciliation(cmd *cobra.Command, r *queryapi.Reconciliation) error {
	tw := newTable(cmd.OutOrStdout(), r.Period+"\tCALLS\tREQUESTS\tCREDITS")
	fmt.Fprintf(tw, "ledger\t%d\t%d\t%d\n", r.Ledger.Calls, r.Ledger.Requests, r.Ledger.Credits)
	fmt.Fprintf(tw, "read model\t%d\t%d\t%d\n", r.ReadModel.Calls, r.ReadModel.Requests, r.ReadModel.Credits)
	if r.Observed != nil {
		fmt.Fprintf(tw, "callers saw\t%d\t\t%d\n", r.Observed.Calls, r.Observed.Credits)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(),
		"%d unanswered calls without charge, %d differences in favor of callers, %d others\n",
		r.Unanswered, r.InCallersFavor, r.Different)
	for _, d := range r.Differences {
		fmt.Fprintln(cmd.OutOrStdout(), "  "+d)
	}
	return nil
}
