package credits

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a [Store] shared by replicas. Every operation is one script, and so atomic. Leases use the server's clock.
//
// The data of a period is valid for one run ID and replication ID of the server. After a restart or failover the period
// is not loaded, even if the server has old data from its disk or from an earlier time as primary. A primary also
// changes its replication ID when its first replica connects.
//
// Redis works with a single server or a primary watched by Sentinels, not with Redis Cluster.
type Redis struct {
	client redis.UniversalClient
	prefix string
	script *redis.Script
}

//go:embed redis.lua
var redisScript string

// periodTTL is the lifetime of an unused period in Redis.
const periodTTL = 62 * 24 * time.Hour

// NewRedis returns a store whose keys start with prefix.
func NewRedis(client redis.UniversalClient, prefix string) *Redis {
	return &Redis{client: client, prefix: prefix, script: redis.NewScript(redisScript)}
}

// run runs an operation of the script, and returns its state and the rest of the reply.
func (r *Redis) run(ctx context.Context, op string, c Claim, args ...any) (state string, rest []any, err error) {
	all := append([]any{op, c.Period, c.Organization}, args...)
	reply, err := r.script.Run(ctx, r.client, []string{r.prefix}, all...).Slice()
	if err != nil {
		return "", nil, fmt.Errorf("redis: %s: %w", op, err)
	}
	if len(reply) == 0 {
		return "", nil, fmt.Errorf("redis: %s: no reply", op)
	}
	state, _ = reply[0].(string)
	switch state {
	case "unloaded":
		return state, nil, ErrNotLoaded
	case "lost":
		return state, nil, ErrLost
	}
	return state, reply[1:], nil
}

func balanceOf(values []any) (b Balance, err error) {
	if len(values) != 4 {
		return b, errors.New("redis: not a balance")
	}
	for i, into := range []*int64{&b.Requests, &b.Credits, &b.HeldRequests, &b.HeldCredits} {
		n, ok := values[i].(int64)
		if !ok {
			return b, errors.New("redis: not a balance")
		}
		*into = n
	}
	return b, nil
}

// Reserve implements [Store].
func (r *Redis) Reserve(ctx context.Context, c Claim) (Balance, error) {
	state, values, err := r.run(ctx, "reserve", c,
		c.ID, c.Requests, c.Credits, c.RequestLimit, c.CreditLimit, c.Lease.Milliseconds(), c.Key, c.Endpoint,
		max(1, c.Calls))
	if err != nil {
		return Balance{}, err
	}
	b, err := balanceOf(values)
	if err == nil && state != "ok" {
		err = &Exceeded{Requests: state == "requests", Balance: b}
	}
	return b, err
}

// Commit implements [Store].
func (r *Redis) Commit(ctx context.Context, c Claim, requests, credits int64) (Balance, error) {
	_, values, err := r.run(ctx, "commit", c, c.ID, requests, credits, commitLease.Milliseconds())
	if err != nil {
		return Balance{}, err
	}
	return balanceOf(values)
}

// Settle implements [Store].
func (r *Redis) Settle(ctx context.Context, claims []Claim) error {
	return r.each(ctx, "settle", claims)
}

// Release implements [Store].
func (r *Redis) Release(ctx context.Context, claims []Claim) error {
	return r.each(ctx, "release", claims)
}

// ReleaseReservations implements [Store].
func (r *Redis) ReleaseReservations(ctx context.Context, claims []Claim) error {
	return r.each(ctx, "release_reservations", claims)
}

// each runs an operation on claims, once per organization and period.
func (r *Redis) each(ctx context.Context, op string, claims []Claim) error {
	type group struct{ organization, period string }
	ids := make(map[group][]any)
	for _, c := range claims {
		g := group{c.Organization, c.Period}
		ids[g] = append(ids[g], c.ID)
	}
	for g, list := range ids {
		_, _, err := r.run(ctx, op, Claim{Organization: g.organization, Period: g.period}, list...)
		if err != nil && !errors.Is(err, ErrNotLoaded) {
			return err
		}
	}
	return nil
}

// Usage implements [Store].
func (r *Redis) Usage(ctx context.Context, organization, period string) (Totals, error) {
	_, fields, err := r.run(ctx, "usage", Claim{Organization: organization, Period: period})
	if err != nil {
		return Totals{}, err
	}
	var t Totals
	lines := make(map[lineKey]*Line)
	for i := 0; i+1 < len(fields); i += 2 {
		name, _ := fields[i].(string)
		text, _ := fields[i+1].(string)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return Totals{}, fmt.Errorf("redis: usage: %w", err)
		}
		switch name {
		case "r":
			t.Requests = n
		case "c":
			t.Credits = n
		case "hr":
			t.HeldRequests = n
		case "hc":
			t.HeldCredits = n
		default:
			parts := strings.Split(name, "\t")
			if len(parts) != 4 {
				continue
			}
			k := lineKey{key: parts[2], endpoint: parts[1]}
			if lines[k] == nil {
				lines[k] = &Line{Key: k.key, Endpoint: k.endpoint}
			}
			switch parts[3] {
			case "n":
				lines[k].Calls = n
			case "r":
				lines[k].Requests = n
			case "c":
				lines[k].Credits = n
			}
		}
	}
	for k, l := range lines {
		if *l != (Line{Key: k.key, Endpoint: k.endpoint}) {
			t.Lines = append(t.Lines, *l)
		}
	}
	sortLines(t.Lines)
	return t, nil
}

// Load implements [Store]. The balances are written under a temporary name, which then becomes the period's, unless
// another replica was faster: usage since its load must not be overwritten.
func (r *Redis) Load(ctx context.Context, period string, balances Balances) (bool, error) {
	_, origin, err := r.run(ctx, "origin", Claim{Period: period})
	if err != nil {
		return false, err
	}
	name := rand.Text()
	pipe := r.client.Pipeline()
	for organization, lines := range balances {
		base := r.prefix + period + ":" + name + ":" + organization
		fields := make([]any, 0, 4+6*len(lines))
		var b Balance
		for _, l := range lines {
			b.Requests += l.Requests
			b.Credits += l.Credits
			line := "l\t" + l.Endpoint + "\t" + l.Key + "\t"
			fields = append(fields, line+"n", l.Calls, line+"r", l.Requests, line+"c", l.Credits)
		}
		pipe.HSet(ctx, base, append(fields, "r", b.Requests, "c", b.Credits)...)
		pipe.Expire(ctx, base, periodTTL)
		if pipe.Len() >= 1000 {
			if _, err := pipe.Exec(ctx); err != nil {
				return false, fmt.Errorf("redis: load: %w", err)
			}
		}
	}
	if pipe.Len() > 0 {
		if _, err := pipe.Exec(ctx); err != nil {
			return false, fmt.Errorf("redis: load: %w", err)
		}
	}
	state, _, err := r.run(ctx, "load", Claim{Period: period}, name, origin[0])
	if err == nil && state == "moved" {
		err = errors.New("redis: load: failover to another server")
	}
	return state == "ok", err
}
