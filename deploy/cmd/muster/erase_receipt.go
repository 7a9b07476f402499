package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/spf13/cobra"

	"muster/deploy/receipt"
	"muster/ingest"
	"muster/platform/service"
	"muster/schemas/suppress"
)

// looking runs do with what receipts are looked up with.
func (c *command) looking(ctx context.Context, do func(context.Context, receipt.Source) error) error {
	tel, err := c.telemetry(ctx, "erase")
	if err != nil {
		return err
	}
	kafka, err := c.kafka()
	if err != nil {
		return err
	}
	return c.withOurs(ctx, kafka, tel, func(ctx context.Context, set *suppress.Set) error {
		return c.withReadModels(ctx, func(conn driver.Conn) error {
			return do(ctx, receipt.Source{Conn: conn, Bus: kafka, Key: set.Key()})
		})
	})
}

func (c *command) rootSecret() (*service.RootSecret, error) {
	return service.LoadRootSecret(c.getenv, c.dataDir)
}

func (c *command) eraseReceipt() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "receipt REQUEST",
		Short: "Look for what is left of a request's people, and write a signed receipt of it",
		Long: `Looks through every table and topic for the people of a request, and writes a receipt as JSON: per table and topic
of records how many rows or messages were compared and how many are left, when; per topic of tasks, events,
deliveries and letters, which go by their age, the same and when what is left is gone; the parts of tables on disk;
what was removed; the hashes that are kept to keep the person out; and where nothing was looked for. It names
nobody. It is signed with Ed25519, by a key of the root secret; the public key is in the receipt.

Exit status: 0 removed, and nothing is left; 1 the receipt is written, and says that something is left, or that
the removal has not ended yet; 2 there is no receipt.`,
		Example: `  muster erase receipt er_0193 --output receipt.json
  muster erase verify receipt.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			secret, err := c.rootSecret()
			if err != nil {
				return err
			}
			key, err := receipt.Key(secret)
			if err != nil {
				return err
			}
			all, err := c.erasures(cmd.Context())
			if err != nil {
				return err
			}
			s, err := ingest.FindErasure(all, args[0])
			if err != nil {
				return err
			}
			if s.State == ingest.ErasureWithdrawn {
				return errors.New("the request was withdrawn: there is nothing to attest")
			}
			r := receipt.Receipt{
				RequestID: s.RequestID, RequestedAt: s.RequestedAt, ReceivedAt: s.At, Scope: s.Scope, State: string(s.State),
				MaskedAt: s.MaskedAt, RemovedAt: s.RemovedAt, Found: s.Found,
			}
			err = c.looking(cmd.Context(), func(ctx context.Context, src receipt.Source) error {
				return receipt.Look(ctx, src, s.Identifiers, &r)
			})
			if err != nil {
				return err
			}
			raw, err := receipt.Sign(r, key)
			if err != nil {
				return err
			}
			if output == "" {
				_, err = cmd.OutOrStdout().Write(raw)
			} else {
				err = os.WriteFile(output, raw, 0o600)
			}
			switch {
			case err != nil:
				return fmt.Errorf("write the receipt: %w", err)
			case r.Remaining() > 0:
				return partlyError{fmt.Errorf("%d rows and messages are left (state %s)", r.Remaining(), s.State)}
			case s.State != ingest.ErasureRemoved:
				return partlyError{fmt.Errorf("the removal has not ended yet (state %s)", s.State)}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&output, "output", "", "file to write (default: standard output)")
	return cmd
}

// maxReceipt bounds a receipt's file, in bytes.
const maxReceipt = 16 << 20

func (c *command) eraseVerify() *cobra.Command {
	var publicKey string
	cmd := &cobra.Command{
		Use:   "verify RECEIPT",
		Short: "Check a receipt's signature, and look again",
		Long: `Checks that the receipt is as this instance signed it, and looks through tables and topics again. With
--public-key only the signature is checked, which needs no instance: take the key from the operator, not from
the receipt.

Exit status: 0 the signature is right and nothing is left; 1 it is wrong, or something is left; 2 it could not be
checked.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			info, err := os.Stat(args[0])
			if err != nil {
				return fmt.Errorf("read the receipt: %w", err)
			}
			if info.Size() > maxReceipt {
				return fmt.Errorf("read the receipt: it is larger than %d bytes", maxReceipt)
			}
			raw, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("read the receipt: %w", err)
			}
			offline := publicKey != ""
			if !offline {
				secret, err := c.rootSecret()
				if err != nil {
					return err
				}
				key, err := receipt.Key(secret)
				if err != nil {
					return err
				}
				publicKey = receipt.PublicKey(key)
			}
			r, err := receipt.Check(raw, publicKey)
			if errors.Is(err, receipt.ErrSignature) {
				return partlyError{err}
			}
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "The signature is right: request %s, %s, %d left when it was verified at %s.\n", r.RequestID, r.State, r.Remaining(), r.VerifiedAt.Format(time.RFC3339))
			if offline {
				return nil
			}
			now := receipt.Receipt{MaskedAt: r.MaskedAt}
			kept := r.Hashes()
			err = c.looking(cmd.Context(), func(ctx context.Context, src receipt.Source) error { return receipt.Look(ctx, src, kept, &now) })
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "Looked again at %s: %d left; %d of %d hashes keep the person out.\n", now.VerifiedAt.Format(time.RFC3339), now.Remaining(), len(now.Kept), len(r.Kept))
			for _, p := range now.Passing {
				if p.Remaining > 0 {
					fmt.Fprintf(out, "%s: %d messages of %d, gone by %s: %s.\n", p.Name, p.Remaining, p.Looked, p.GoneBy.Format(time.RFC3339), p.UntilThen)
				}
			}
			for _, f := range now.Files {
				if f.Remaining > 0 {
					fmt.Fprintf(out, "%s: %d parts of %d hold deleted rows, of whomever, until they are rewritten.\n", f.Name, f.Remaining, f.Looked)
				}
			}
			fmt.Fprintln(out, "Not looked through:")
			for _, s := range now.NotLookedThrough {
				fmt.Fprintln(out, "  -", s)
			}
			if now.Remaining() > 0 || len(now.Kept) < len(r.Kept) {
				return partlyError{fmt.Errorf("%d rows and messages are left, %d hashes were lifted", now.Remaining(), max(0, len(r.Kept)-len(now.Kept)))}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&publicKey, "public-key", "", "check the signature alone, with this key (base64)")
	return cmd
}
