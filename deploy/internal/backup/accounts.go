package backup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
)

// Accounts are the organizations and keys in a data directory.
type Accounts struct {
	organizations map[string]event.Organization
	keys          map[string]event.Key
}

func accounts(ctx context.Context, cfg bus.Config) (Accounts, error) {
	a := Accounts{organizations: make(map[string]event.Organization), keys: make(map[string]event.Key)}
	err := bus.Scan(ctx, cfg, []string{event.TopicAccount}, func(m kafka.Message) error {
		o, k, err := event.DecodeAccount(m.Key, m.Value)
		if err != nil {
			return nil //nolint:nilerr // gives no access
		}
		if o != nil {
			a.organizations[o.ID] = *o
		} else {
			a.keys[k.ID] = *k
		}
		return nil
	})
	if err != nil {
		return a, fmt.Errorf("read the accounts: %w", err)
	}
	return a, nil
}

// RegainedAccess lists the organizations and keys with more access in an earlier state than in a later one.
type RegainedAccess struct {
	Keys, Organizations []string
	// Rotated are the keys with access in both states, which expires sooner in the later one because they were rotated.
	Rotated []string
}

// RegainedAccess returns what has access in a, but no longer, or not for as long, in later.
func (a Accounts) RegainedAccess(later Accounts, now time.Time) (in RegainedAccess) {
	for id, k := range a.keys {
		then, ok := later.keys[id]
		switch {
		case !ok || !k.ValidAt(now):
		case !then.ValidAt(now):
			in.Keys = append(in.Keys, id)
		case ends(then).Before(ends(k)):
			in.Rotated = append(in.Rotated, id)
		}
	}
	for id, o := range a.organizations {
		if then, ok := later.organizations[id]; ok && o.Active && !then.Active {
			in.Organizations = append(in.Organizations, id)
		}
	}
	slices.Sort(in.Keys)
	slices.Sort(in.Organizations)
	slices.Sort(in.Rotated)
	return in
}

// ends returns when a key expires. A key without expiry is after all others.
func ends(k event.Key) time.Time {
	if k.ExpiresAt.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return k.ExpiresAt
}
