package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"
	"github.com/spf13/cobra"

	"muster/ingest"
	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

func (c *command) feedbackCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "feedback",
		Short: "Decide about callers' feedback on matches",
		Long: `Callers say with POST /v1/feedback whether a match is right. Nothing changes until the feedback is
accepted: then it becomes account-link records with the source "feedback", which are declared links. "right" states a
link of the two accounts; "wrong" withdraws what earlier feedback stated of them; "correction" does both. Feedback of
erased people is deleted.`,
		Example: `  muster feedback list
  muster feedback accept 01980c5e-6b1f-7c3a-9d55-2f6f5c1d7e10
  muster feedback reject 01980c5e-6b1f-7c3a-9d55-2f6f5c1d7e10`,
		GroupID: "data",
	}
	cmd.AddCommand(c.feedbackList(), c.feedbackDecide("accept", event.FeedbackAccepted),
		c.feedbackDecide("reject", event.FeedbackRejected))
	return cmd
}

func (c *command) feedbackList() *cobra.Command {
	var f readmodel.FeedbackFilter
	var status string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List feedback, newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch f.Status = event.FeedbackStatus(status); f.Status {
			case event.FeedbackPending, event.FeedbackAccepted, event.FeedbackRejected:
			case "all":
				f.Status = ""
			default:
				return fmt.Errorf("--status: invalid value %q: want pending, accepted, rejected or all", status)
			}
			if f.Limit < 1 {
				return errors.New("--limit must be at least 1")
			}
			list, err := c.readFeedback(cmd.Context(), f)
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, list)
			}
			return printFeedback(cmd.OutOrStdout(), list)
		},
	}
	cmd.Flags().StringVar(&status, "status", string(event.FeedbackPending), "pending, accepted, rejected or all")
	cmd.Flags().StringVar(&f.Organization, "organization", "", "ID of the organization that gave it")
	cmd.Flags().IntVar(&f.Limit, "limit", 100, "maximum number of lines")
	return addJSONFlag(cmd)
}

func (c *command) readFeedback(ctx context.Context, f readmodel.FeedbackFilter) (list []event.Feedback, err error) {
	err = c.withReadModels(ctx, func(conn driver.Conn) error {
		list, err = readmodel.ReadFeedback(ctx, conn, f)
		return err
	})
	return list, err
}

func printFeedback(out io.Writer, list []event.Feedback) error {
	tw := newTable(out, "ID\tGIVEN\tORGANIZATION\tSTATUS\tVERDICT\tACCOUNTS\tCORRECT\tREQUEST")
	for _, f := range list {
		names := make([]string, len(f.Accounts))
		for i, a := range f.Accounts {
			names[i] = accountName(a)
		}
		correct := ""
		if f.Correct != nil {
			correct = accountName(*f.Correct)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.ID, f.At.Format(time.RFC3339), f.OrganizationID, f.Status,
			f.Verdict, orDash(strings.Join(names, " ")), orDash(correct), orDash(f.RequestID))
	}
	return tw.Flush()
}

func accountName(a event.Account) string { return a.Platform + ":" + a.Username }

func (c *command) feedbackDecide(name string, status event.FeedbackStatus) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name + " ID",
		Short: "Reject feedback",
		Long: `Marks pending feedback as rejected. It stays in the list for a year and changes nothing else.

Exit status: 0 it is rejected; 2 there is no such feedback, or it is accepted.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.decideFeedback(cmd, args[0], status)
		},
	}
	if status == event.FeedbackAccepted {
		cmd.Short = "Accept feedback, and publish its links"
		cmd.Long = `Publishes the account-link records of pending feedback, then marks it as accepted. An interrupted
command can be repeated. Feedback without accounts has no links and can only be rejected.

Exit status: 0 it is accepted; 2 there is no such feedback, it is rejected, or its records were not published.`
	}
	return cmd
}

func (c *command) decideFeedback(cmd *cobra.Command, id string, status event.FeedbackStatus) error {
	ctx := cmd.Context()
	found, err := c.readFeedback(ctx, readmodel.FeedbackFilter{ID: id, Limit: 1})
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return fmt.Errorf("no feedback with the ID %q: see muster feedback list --status all", id)
	case found[0].Status == status:
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is already %s\n", id, status)
		return err
	case found[0].Status != event.FeedbackPending:
		return fmt.Errorf("feedback %s is %s since %s; decisions are final", id, found[0].Status,
			found[0].DecidedAt.Format(time.RFC3339))
	}
	f, links := found[0], 0
	f.Status, f.DecidedAt = status, time.Now().UTC()
	cfg, err := c.letterConfig()
	if err != nil {
		return err
	}
	if status == event.FeedbackAccepted {
		if links, err = c.publishLinks(ctx, cfg, &f); err != nil {
			return err
		}
	}
	if err := publishDecision(ctx, cfg.Bus, &f); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is %s; %d account-link records were published\n", id, status, links)
	return err
}

// publishLinks publishes the account-link records of feedback, and returns their number.
func (c *command) publishLinks(ctx context.Context, cfg ingest.Config, f *event.Feedback) (int, error) {
	stated, withdrawn := f.Links()
	if len(stated)+len(withdrawn) == 0 {
		return 0, fmt.Errorf("feedback %s names no accounts, so it states nothing: reject it", f.ID)
	}
	var lines bytes.Buffer
	write := func(pair [2]event.Account, deleted bool) error {
		link := record.AccountLink{
			A: record.Account{Platform: pair[0].Platform, Username: pair[0].Username},
			B: record.Account{Platform: pair[1].Platform, Username: pair[1].Username}, Source: event.FeedbackSource,
			ObservedAt: f.DecidedAt.Format(time.RFC3339Nano), Deleted: deleted,
		}
		line, err := json.Marshal(link)
		lines.Write(append(line, '\n'))
		return err
	}
	for _, pair := range withdrawn {
		if err := write(pair, true); err != nil {
			return 0, fmt.Errorf("encode a link: %w", err)
		}
	}
	for _, pair := range stated {
		if err := write(pair, false); err != nil {
			return 0, fmt.Errorf("encode a link: %w", err)
		}
	}
	tel, err := c.telemetry(ctx, "feedback")
	if err != nil {
		return 0, err
	}
	cfg.Format = "ndjson"
	var done ingest.Summary
	err = c.withPublisher(ctx, cfg, ingest.Deps{Logger: tel.Logger, Stdin: &lines},
		func(ctx context.Context, deps ingest.Deps) (err error) {
			done, err = ingest.Files(ctx, cfg, deps, record.KindAccountLink, []string{"-"})
			return err
		})
	if err != nil {
		return 0, err
	}
	switch total := done.Total(); {
	case total.Suppressed > 0:
		return 0, errors.New("an account of the feedback is erased: reject it")
	case total.Rejected+total.Unfinished > 0:
		return 0, errors.New("account-link records were rejected: muster rejected list says why")
	}
	return len(stated) + len(withdrawn), nil
}

// publishDecision publishes decided feedback.
func publishDecision(ctx context.Context, cfg bus.Config, f *event.Feedback) error {
	if err := f.Validate(); err != nil {
		return err
	}
	value, err := json.Marshal(f, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode feedback: %w", err)
	}
	w := bus.NewWriter(cfg)
	err = bus.WriteAll(ctx, w, []kafka.Message{{
		Topic: event.TopicFeedback, Key: []byte(f.ID), Value: value, Headers: bus.SetEvent(nil, bus.Event{
			ID: f.ID + " " + string(f.Status), Type: event.TypeFeedback, Source: "/muster/feedback", Subject: f.ID,
			Time: f.DecidedAt, ContentType: "application/json",
		}),
	}})
	return errors.Join(err, w.Close())
}
