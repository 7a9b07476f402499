package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/spf13/cobra"

	"muster/deploy/erasure"
	"muster/platform/console"
	"muster/schemas/suppress"
)

func (c *command) subjectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "subject",
		Short:   "Answer data subject access requests",
		GroupID: "people",
	}
	cmd.AddCommand(c.subjectShow())
	return cmd
}

func (c *command) subjectShow() *cobra.Command {
	var opts erasure.ReportLimits
	cmd := &cobra.Command{
		Use:   "show TYPE=VALUE...",
		Short: "Show stored data about a person, its sources and recipients",
		Long: `Data subject access report: searches every read model for records with any of the identifiers, and for
the account of the other webset if both accounts link to each other, and lists

  - each row: table, identity, version, the message it comes from (topic/partition@offset), and the source of that
    record (file:line, run of ingest, time) while the log retains the message;
  - each API call that returned the person: organization, time, endpoint, groups of fields, of the last
    400 days, found by keyed hashes;
  - what was not searched.

Types: ` + suppress.TypeNames() + `; for VALUE see "muster erase". Email addresses and telephone numbers are searched in
all fields of a record. The content of rows is only in --json. The output is personal data.

Exit status: 0; 1 no data found; 2 the search failed.`,
		Example: `  muster subject show email=ada@example.com
  muster subject show codehost_username=ada user_id=42 --json > ada.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			identifiers, err := erasure.ParseIdentifiers(args)
			if err != nil {
				return err
			}
			if opts.Rows < 1 || opts.Rows > maxListed || opts.Messages < 0 || opts.Messages > maxListed {
				return fmt.Errorf("invalid limit: want --rows 1 to %d, --messages 0 to %d", maxListed, maxListed)
			}
			// With another root secret no disclosure would match; withOurs detects that.
			return c.withOurs(cmd.Context(), "subject", func(ctx context.Context, s session) error {
				return c.withReadModels(ctx, func(conn driver.Conn) error {
					r, err := erasure.FindSubject(ctx, erasure.Source{Conn: conn, Bus: s.kafka}, s.set.Key(),
						identifiers, opts)
					if err != nil {
						return err
					}
					if wantsJSON(cmd) {
						err = printJSON(cmd, r)
					} else {
						err = printSubject(cmd.OutOrStdout(), r)
					}
					if err == nil && r.Held() == 0 && r.Calls == 0 {
						return partlyError{errors.New("no data found for these identifiers")}
					}
					return err
				})
			})
		},
	}
	cmd.Flags().IntVar(&opts.Rows, "rows", 1000,
		"maximum number of rows to list per table, and of calls; all are counted")
	cmd.Flags().IntVar(&opts.Messages, "messages", 500,
		"maximum number of messages to read for the file and line of rows")
	cmd.Flags().Bool("json", false, "print JSON, with the content of rows")
	return cmd
}

func printSubject(out io.Writer, r *erasure.SubjectReport) error {
	tw := newTable(out, "ACCOUNT\tID\tUSERNAMES\tFOUND BY")
	for _, a := range r.Accounts {
		by := "identifier"
		if a.Linked {
			by = "mutual link of both accounts"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", a.Platform, a.ID, console.Line(strings.Join(a.Usernames, ", ")), by)
	}
	fmt.Fprintln(tw, "\nTABLE\tIDENTITY\tVERSION\tMESSAGE\tFROM")
	for _, row := range r.Rows {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", row.Table, oneLine(row.Identity), row.Version, placeOf(row.Message),
			console.Line(originOf(row.Message)))
	}
	fmt.Fprintln(tw, "\nGIVEN TO\tAT\tENDPOINT\tFIELDS\tRECORDS\tREQUEST")
	for _, u := range r.Received {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", u.OrganizationID, u.At.UTC().Format(time.RFC3339), u.Endpoint,
			strings.Join(u.Fields, ", "),
			strings.Join(u.Identities, ", "), u.RequestID)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d rows, %d calls\n", r.Held(), r.Calls)
	for _, t := range r.Tables {
		if t.Rows > uint64(t.Listed) { //nolint:gosec // a count
			fmt.Fprintf(out, "%s: %d of %d rows listed (--rows lists more)\n", t.Name, t.Listed, t.Rows)
		}
	}
	if r.Calls > uint64(len(r.Received)) {
		fmt.Fprintf(out, "newest %d of %d calls listed (--rows lists more)\n", len(r.Received), r.Calls)
	}
	fmt.Fprintln(out, "Not searched:")
	for _, s := range r.NotLookedThrough {
		fmt.Fprintln(out, "  -", s)
	}
	return nil
}

func placeOf(m erasure.SourceMessage) string {
	return fmt.Sprintf("%s/%d@%d", m.Topic, m.Partition, m.Offset)
}

// originOf formats the source location of a message's record.
func originOf(m erasure.SourceMessage) string {
	switch {
	case m.Gone:
		return "(no longer in the log)"
	case m.Unread:
		return "(not read: --messages)"
	case m.File != "":
		return fmt.Sprintf("%s:%s, run %s, %s", m.File, m.Line, m.Run, m.Time.Format(time.RFC3339))
	case m.Source != "":
		return m.Source + ", " + m.Time.Format(time.RFC3339)
	}
	return m.Time.Format(time.RFC3339)
}
