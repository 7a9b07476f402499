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

// Accounts are who may call, as some data folder has it.
type Accounts struct {
	organizations map[string]event.Organization
	keys          map[string]event.Key
}

// AccountsOf reads the accounts of a data folder, from its embedded broker's log. Nobody serves from it meanwhile.
func AccountsOf(ctx context.Context, dir string) (Accounts, error) {
	a := Accounts{organizations: make(map[string]event.Organization), keys: make(map[string]event.Key)}
	err := WithBroker(ctx, dir, func(ctx context.Context, cfg bus.Config) error {
		return bus.Scan(ctx, cfg, []string{event.TopicAccount}, func(m kafka.Message) error {
			o, k, err := event.DecodeAccount(m.Key, m.Value)
			if err != nil {
				return nil //nolint:nilerr // nobody is let in by it
			}
			if o != nil {
				a.organizations[o.ID] = *o
			} else {
				a.keys[k.ID] = *k
			}
			return nil
		})
	})
	if err != nil {
		return a, fmt.Errorf("read the accounts: %w", err)
	}
	return a, nil
}

// LetIn returns the IDs of the keys and organizations that may call here, and might no more where it was later, or
// not for as long: a key that was rotated goes on there until its grace ends.
func (a Accounts) LetIn(later Accounts, now time.Time) (keys, organizations []string) {
	for id, k := range a.keys {
		then, ok := later.keys[id]
		if ok && k.ValidAt(now) && (!then.ValidAt(now) || ends(then).Before(ends(k))) {
			keys = append(keys, id)
		}
	}
	for id, o := range a.organizations {
		if then, ok := later.organizations[id]; ok && o.Active && !then.Active {
			organizations = append(organizations, id)
		}
	}
	slices.Sort(keys)
	slices.Sort(organizations)
	return keys, organizations
}

// ends is when a key expires; one that never does, after all others.
func ends(k event.Key) time.Time {
	if k.ExpiresAt.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return k.ExpiresAt
}
