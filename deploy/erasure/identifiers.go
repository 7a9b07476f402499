package erasure

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/platform/bus"
	erasing "muster/projector/erasure"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// ParseIdentifiers parses TYPE=VALUE arguments. Its errors do not contain values.
func ParseIdentifiers(args []string) ([]record.ErasureIdentifier, error) {
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

// Suppressed returns the identifiers that are suppressed. All of them must be valid.
func Suppressed(set *suppress.Set, identifiers []record.ErasureIdentifier) (out []record.ErasureIdentifier) {
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

// AwaitSuppressed waits until the requests with the given IDs are in force in every table. It calls waiting after each
// poll.
func AwaitSuppressed(ctx context.Context, cfg bus.Config, requests []string, timeout time.Duration,
	waiting func()) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		fmt.Errorf(
			"the people found are not deleted after %s: is a projector running? Run the command again to continue",
			timeout))
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		all, err := erasing.Requests(ctx, cfg)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		done := make(map[string]bool)
		for _, s := range all {
			done[s.RequestID] = s.State != erasing.Requested
		}
		left := 0
		for _, id := range requests {
			if !done[id] {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			waiting()
		}
	}
}
