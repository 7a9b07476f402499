package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/spf13/cobra"

	"muster/deploy/erasure"
	"muster/platform/service"
	erasing "muster/projector/erasure"
	"muster/schemas/suppress"
)

// withReceiptSource runs do with the stores and the key that receipts are verified with.
func (c *command) withReceiptSource(ctx context.Context,
	do func(context.Context, erasure.Source, *suppress.Key) error) error {
	return c.withOurs(ctx, "erase", func(ctx context.Context, s session) error {
		return c.withReadModels(ctx, func(conn driver.Conn) error {
			return do(ctx, erasure.Source{Conn: conn, Bus: s.kafka}, s.set.Key())
		})
	})
}

func (c *command) rootSecret() (*service.RootSecret, error) {
	return service.LoadRootSecret(c.getenv, c.dataDir)
}

// receiptKey returns the key that signs the receipts of the instance.
func (c *command) receiptKey() (ed25519.PrivateKey, error) {
	secret, err := c.rootSecret()
	if err != nil {
		return nil, err
	}
	return erasure.ReceiptKey(secret)
}

func (c *command) eraseReceipt() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "receipt REQUEST",
		Short: "Verify a deletion, and write a signed receipt",
		Long: `Searches every table and topic for the people of a request, and writes a receipt as JSON: for each
table and topic of records, the number of rows or messages compared and remaining, and the time; for each topic of
tasks, events, deliveries and dead letters, which expire by age, the same and when the remainder expires; the table
parts on disk; the removed data; the number of organizations that are notified; the suppression hashes that are retained; and what was not searched. It contains no
personal data. It is signed with Ed25519, by a key derived from the root secret; the public key is in the receipt.

Exit status: 0 deleted, nothing remains; 1 the receipt is written, but data remains or the deletion is not finished;
2 there is no receipt.`,
		Example: `  muster erase receipt er_0193 --output receipt.json
  muster erase verify receipt.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := c.receiptKey()
			if err != nil {
				return err
			}
			all, err := c.erasures(cmd.Context())
			if err != nil {
				return err
			}
			s, err := erasing.Find(all, args[0])
			if err != nil {
				return err
			}
			if s.State == erasing.Withdrawn {
				return errors.New("the request was withdrawn: nothing to attest")
			}
			r := erasure.Receipt{
				RequestID: s.RequestID, RequestedAt: s.RequestedAt, ReceivedAt: s.At, Scope: s.Scope,
				State:        string(s.State),
				SuppressedAt: s.SuppressedAt, DeletedAt: s.DeletedAt, Found: s.Found, Notified: len(s.Notified),
				NotNotified: len(s.Unreachable),
			}
			err = c.withReceiptSource(
				cmd.Context(),
				func(ctx context.Context, src erasure.Source, own *suppress.Key) error {
					return r.Search(ctx, src, own, s.Identifiers)
				},
			)
			if err != nil {
				return err
			}
			raw, err := r.Sign(key)
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
				return partlyError{fmt.Errorf("%d rows and messages remain (state %s)", r.Remaining(), s.State)}
			case s.State != erasing.Deleted:
				return partlyError{fmt.Errorf("the deletion is not finished (state %s)", s.State)}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&output, "output", "", "output file (default: standard output)")
	return cmd
}

// maxReceipt is the maximum size of a receipt file, in bytes.
const maxReceipt = 16 << 20

func (c *command) eraseVerify() *cobra.Command {
	var publicKey string
	cmd := &cobra.Command{
		Use:   "verify RECEIPT",
		Short: "Verify the signature of a receipt, and search again",
		Long: `Verifies that this instance signed the receipt, and searches tables and topics again. With --public-key
it verifies only the signature, which needs no instance: get the key from the operator, not from the erasure.

Exit status: 0 the signature is valid and nothing remains; 1 it is invalid, or data remains; 2 it could not be
verified.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			info, err := os.Stat(args[0])
			if err != nil {
				return fmt.Errorf("read the receipt: %w", err)
			}
			if info.Size() > maxReceipt {
				return fmt.Errorf("read the receipt: too large (max %d bytes)", maxReceipt)
			}
			raw, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("read the receipt: %w", err)
			}
			offline := publicKey != ""
			if !offline {
				key, err := c.receiptKey()
				if err != nil {
					return err
				}
				publicKey = erasure.PublicKey(key)
			}
			r, err := erasure.CheckReceipt(raw, publicKey)
			if errors.Is(err, erasure.ErrSignature) {
				return partlyError{err}
			}
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "The signature is valid: request %s, %s, %d remaining when verified at %s.\n", r.RequestID,
				r.State, r.Remaining(), r.VerifiedAt.Format(time.RFC3339))
			if offline {
				return nil
			}
			now := erasure.Receipt{SuppressedAt: r.SuppressedAt}
			kept := r.Hashes()
			err = c.withReceiptSource(
				cmd.Context(),
				func(ctx context.Context, src erasure.Source, own *suppress.Key) error {
					return now.Search(ctx, src, own, kept)
				},
			)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "Searched again at %s: %d remaining; %d of %d hashes are in force.\n",
				now.VerifiedAt.Format(time.RFC3339), now.Remaining(), len(now.Kept), len(r.Kept))
			for _, p := range now.Passing {
				if p.Remaining > 0 {
					fmt.Fprintf(out, "%s: %d of %d messages remain until %s: %s.\n", p.Name, p.Remaining, p.Looked,
						p.GoneBy.Format(time.RFC3339), p.UntilThen)
				}
			}
			for _, f := range now.Files {
				if f.Remaining > 0 {
					fmt.Fprintf(out, "%s: %d of %d parts hold deleted rows of any person until they are rewritten.\n",
						f.Name, f.Remaining, f.Looked)
				}
			}
			fmt.Fprintln(out, "Not searched:")
			for _, s := range now.NotLookedThrough {
				fmt.Fprintln(out, "  -", s)
			}
			if now.Remaining() > 0 || len(now.Kept) < len(r.Kept) {
				return partlyError{fmt.Errorf("%d rows and messages remain, %d hashes were removed", now.Remaining(),
					max(0, len(r.Kept)-len(now.Kept)))}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&publicKey, "public-key", "", "verify only the signature, with this public key (base64)")
	return cmd
}
