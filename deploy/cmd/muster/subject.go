package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/spf13/cobra"

	"muster/deploy/subject"
	"muster/platform/console"
	"muster/schemas/event"
	"muster/schemas/suppress"
)

// errNothingHeld ends the command with status 1.
var errNothingHeld = errors.New("no data found for these identifiers")

func (c *command) subjectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "subject",
		Short:   "Answer people who ask what is held about them",
		GroupID: "people",
		Args:    cobra.NoArgs,
	}
	cmd.AddCommand(c.subjectShow())
	return cmd
}

func (c *command) subjectShow() *cobra.Command {
	var opts subject.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show TYPE=VALUE...",
		Short: "Show everything that is held about a person, where it came from, and who was given it",
		Long: `Looks through every read model for whoever has one of the identifiers, and for the account of the other webset
when the two name each other, and lists

  - each row: table, identity, version, the message that made it (topic/partition@offset), and where that
    record came from (file:line, run of ingest, time) as long as the log still holds the message;
  - each call of the API that returned the person: organization, time, endpoint, groups of fields, from the
    ledger, which has keyed hashes of identities in place of identities;
  - where it cannot look.

Types: ` + suppress.TypeNames() + `; a VALUE is as in "muster erase". E-mail
addresses and telephone numbers are looked for in all fields of a record. The rows' contents are in --json only.
The output is personal data.

Exit status: 0; 1 nothing is held; 2 it could not be looked for.`,
		Example: `  muster subject show email=ada@example.com
  muster subject show codehost_username=ada user_id=42 --json > ada.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			identifiers, err := parseIdentifiers(args)
			if err != nil {
				return err
			}
			if opts.Rows < 1 || opts.Rows > maxListed || opts.Messages < 0 || opts.Messages > maxListed {
				return fmt.Errorf("--rows is 1 to %d, --messages 0 to %d", maxListed, maxListed)
			}
			tel, err := c.telemetry(cmd.Context(), "subject")
			if err != nil {
				return err
			}
			kafka, err := c.kafka()
			if err != nil {
				return err
			}
			secret, err := c.rootSecret()
			if err != nil {
				return err
			}
			key, err := secret.Key(event.UsageIdentityKey, event.UsageIdentityKeySize)
			if err != nil {
				return err
			}
			// With another root secret the ledger would name nobody: the set of erased people tells.
			return c.withOurs(cmd.Context(), kafka, tel, func(ctx context.Context, _ *suppress.Set) error {
				return c.withReadModels(ctx, func(conn driver.Conn) error {
					r, err := subject.Show(ctx, subject.Source{Conn: conn, Bus: kafka, LedgerKey: key}, identifiers, opts)
					if err != nil {
						return err
					}
					if asJSON {
						err = printJSON(cmd, r)
					} else {
						err = printSubject(cmd.OutOrStdout(), r)
					}
					if err == nil && r.Held() == 0 && r.Calls == 0 {
						return partlyError{errNothingHeld}
					}
					return err
				})
			})
		},
	}
	cmd.Flags().IntVar(&opts.Rows, "rows", 1000, "how many rows of each table, and calls, to list at most; all are counted")
	cmd.Flags().IntVar(&opts.Messages, "messages", 500, "how many messages to look up at most, for the file and line of rows")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with the rows' contents")
	return cmd
}

func printSubject(out io.Writer, r *subject.Report) error {
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ACCOUNT\tID\tUSERNAMES\tFOUND BY")
	for _, a := range r.Accounts {
		by := "identifier"
		if a.Linked {
			by = "a link that both accounts state"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", a.Platform, a.ID, console.Line(strings.Join(a.Usernames, ", ")), by)
	}
	fmt.Fprintln(tw, "\nTABLE\tIDENTITY\tVERSION\tMESSAGE\tFROM")
	for _, row := range r.Rows {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", row.Table, oneLine(row.Identity), row.Version, placeOf(row.Message), console.Line(originOf(row.Message)))
	}
	fmt.Fprintln(tw, "\nGIVEN TO\tAT\tENDPOINT\tFIELDS\tRECORDS\tREQUEST")
	for _, u := range r.Received {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", u.OrganizationID, u.At.UTC().Format(time.RFC3339), u.Endpoint, strings.Join(u.Fields, ", "),
			strings.Join(u.Identities, ", "), u.RequestID)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d rows, %d calls\n", r.Held(), r.Calls)
	for _, t := range r.Tables {
		if t.Rows > uint64(t.Listed) { //nolint:gosec // a count
			fmt.Fprintf(out, "of %s %d of %d rows are listed: --rows lists more\n", t.Name, t.Listed, t.Rows)
		}
	}
	if r.Calls > uint64(len(r.Received)) {
		fmt.Fprintf(out, "the newest %d of %d calls are listed: --rows lists more\n", len(r.Received), r.Calls)
	}
	fmt.Fprintln(out, "Not looked through:")
	for _, s := range r.NotLookedThrough {
		fmt.Fprintln(out, "  -", s)
	}
	return nil
}

func placeOf(m subject.Message) string {
	return fmt.Sprintf("%s/%d@%d", m.Topic, m.Partition, m.Offset)
}

// originOf is where a message's record came from, for people.
func originOf(m subject.Message) string {
	switch {
	case m.Gone:
		return "(the log does not hold it any more)"
	case m.Unread:
		return "(not looked up: --messages)"
	case m.File != "":
		return fmt.Sprintf("%s:%s, run %s, %s", m.File, m.Line, m.Run, m.Time.Format(time.RFC3339))
	case m.Source != "":
		return m.Source + ", " + m.Time.Format(time.RFC3339)
	}
	return m.Time.Format(time.RFC3339)
}
