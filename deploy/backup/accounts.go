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

func accounts(ctx context.Context, cfg bus.Config) (Accounts, error) {
	a := Accounts{organizations: make(map[string]event.Organization), keys: make(map[string]event.Key)}
	err := bus.Scan(ctx, cfg, []string{event.TopicAccount}, func(m kafka.Message) error {
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
	if err != nil {
		return a, fmt.Errorf("read the accounts: %w", err)
	}
	return a, nil
}

// LetIn are the IDs of who may call by an earlier state, and might not by a later one.
type LetIn struct {
	Keys, Organizations []string
	// Rotated are the keys that may call by both, by the later one for less long: until the grace of their rotation ends.
	Rotated []string
}

// LetIn returns who may call here, and might no more, or not for as long, where it was later.
func (a Accounts) LetIn(later Accounts, now time.Time) (in LetIn) {
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

// ends is when a key expires; one that never does, after all others.
func ends(k event.Key) time.Time {
	if k.ExpiresAt.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return k.ExpiresAt
}
