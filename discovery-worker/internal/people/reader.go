package people

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	ch "muster/platform/clickhouse"
	"muster/platform/gather"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
)

// Config bounds what a [Reader] asks of the store. Zero fields take their
// defaults.
type Config struct {
	// MaxQueries is how many queries run at once; default: the processors, at least 2.
	MaxQueries int
	// QueryTimeout bounds one query; default 5 s.
	QueryTimeout time.Duration
	// Suppressed says whose records do not exist for readers; nil: nobody's.
	Suppressed *suppress.Set
}

// Reader reads profiles. It is safe for concurrent use. What several ask for at the
// same time is asked together, as query-api does it.
type Reader struct {
	cfg       Config
	conn      driver.Conn
	platforms *identity.Platforms
	permits   chan struct{}

	lookups   *gather.Gatherer[uint64, []readmodel.LookupRow]
	network   *gather.Gatherer[uint64, []*readmodel.NetworkPersonRow]
	codehost  *gather.Gatherer[int64, []*readmodel.CodehostPersonRow]
	microblog *gather.Gatherer[uint64, []*readmodel.MicroblogPersonRow]
}

// NewReader returns a reader over the read models. It is closed after the last
// question.
func NewReader(conn driver.Conn, platforms *identity.Platforms, cfg Config) *Reader {
	if cfg.MaxQueries <= 0 {
		cfg.MaxQueries = max(2, runtime.GOMAXPROCS(0))
	}
	if cfg.QueryTimeout <= 0 {
		cfg.QueryTimeout = 5 * time.Second
	}
	r := &Reader{cfg: cfg, conn: conn, platforms: platforms, permits: make(chan struct{}, cfg.MaxQueries)}
	r.lookups = gatherRows(r, "lookups", readmodel.LookupQuery(), func(found map[uint64][]readmodel.LookupRow, row *readmodel.LookupRow) {
		found[row.KeyHash] = append(found[row.KeyHash], *row)
	}, readmodel.NewestLookups)
	r.network = gatherRows(r, "network_people", readmodel.NetworkPeopleQuery(readmodel.NetworkWebset),
		func(found map[uint64][]*readmodel.NetworkPersonRow, row *readmodel.NetworkPersonRow) {
			found[row.ProfileHash] = append(found[row.ProfileHash], row)
		}, readmodel.FreshenNetworkPeople)
	r.codehost = gatherRows(r, "codehost_people", readmodel.CodehostPeopleQuery(readmodel.CodehostAddon),
		func(found map[int64][]*readmodel.CodehostPersonRow, row *readmodel.CodehostPersonRow) {
			found[row.UserID] = append(found[row.UserID], row)
		}, readmodel.FreshenCodehostPeople)
	r.microblog = gatherRows(r, "microblog_people", readmodel.MicroblogPeopleQuery(),
		func(found map[uint64][]*readmodel.MicroblogPersonRow, row *readmodel.MicroblogPersonRow) {
			found[row.UserHash] = append(found[row.UserHash], row)
		}, readmodel.FreshenMicroblogPeople)
	return r
}

// Close fails whoever still reads and waits until no gathered query runs.
func (r *Reader) Close() {
	r.lookups.Close()
	r.network.Close()
	r.codehost.Close()
	r.microblog.Close()
}

// gatherRows returns a gatherer over a query of readmodel; add files a row, and
// finish makes a key's value of what was filed, before anybody sees it.
func gatherRows[K int64 | uint64, V, T any, R rowOf[T]](r *Reader, table, query string, add func(map[K]V, R), finish func(V) V) *gather.Gatherer[K, V] {
	return gather.New(context.Background(), gather.Config[K, V]{
		Name: table, MaxKeys: readmodel.MaxKeys, InFlight: 2, Timeout: r.cfg.QueryTimeout, Linger: 200 * time.Microsecond, Permits: r.permits,
		Fetch: func(ctx context.Context, keys []K) (map[K]V, error) {
			found := make(map[K]V, len(keys))
			err := r.send(ctx, query, readmodel.FormatKeys(keys), func(rows driver.Rows) error {
				row := R(new(T))
				if err := rows.Scan(row.Dest()...); err != nil {
					return err
				}
				add(found, row)
				return nil
			})
			for k, v := range found {
				found[k] = finish(v)
			}
			return found, err
		},
	})
}

// Key is what lookups are asked for.
type Key struct {
	Type  readmodel.LookupType
	Value string
}

// Lookup reads the candidates of keys, by key. Empty values have none.
func (r *Reader) Lookup(ctx context.Context, keys []Key) (map[Key][]readmodel.LookupRow, error) {
	wanted := make(map[Key]bool, len(keys))
	hashes := make([]uint64, 0, len(keys))
	for _, k := range keys {
		if k.Value != "" && !wanted[k] {
			wanted[k] = true
			hashes = append(hashes, readmodel.KeyHash(k.Type, k.Value))
		}
	}
	found := make(map[Key][]readmodel.LookupRow, len(keys))
	lists, err := r.lookups.Get(ctx, hashes)
	if err != nil {
		return nil, fmt.Errorf("look up: %w", err)
	}
	for _, list := range lists {
		for _, row := range list {
			if k := (Key{readmodel.LookupType(row.Type), row.Value}); wanted[k] {
				found[k] = append(found[k], row)
			}
		}
	}
	return found, nil
}

// Ref names a record by platform and stable id.
type Ref struct{ Platform, Identity string }

// RefOf is the record that a row of lookups names; false for an account.
func RefOf(row readmodel.LookupRow) (Ref, bool) {
	switch row.TargetKind {
	case readmodel.TargetNetworkPerson:
		return Ref{identity.Network, row.Target}, true
	case readmodel.TargetCodehostPerson:
		return Ref{identity.Codehost, row.Target}, true
	case readmodel.TargetMicroblogPerson:
		return Ref{identity.Microblog, row.Target}, true
	}
	return Ref{}, false
}

// Read reads profiles; those that do not exist, or were withdrawn, are missing.
func (r *Reader) Read(ctx context.Context, refs []Ref) (map[Ref]*Profile, error) {
	byPlatform := make(map[string][]string)
	for _, ref := range refs {
		if !slices.Contains(byPlatform[ref.Platform], ref.Identity) {
			byPlatform[ref.Platform] = append(byPlatform[ref.Platform], ref.Identity)
		}
	}
	var network, codehost, microblog []*Profile
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		network, err = r.readNetwork(ctx, byPlatform[identity.Network])
		return err
	})
	g.Go(func() (err error) {
		codehost, err = r.readCodehost(ctx, byPlatform[identity.Codehost])
		return err
	})
	g.Go(func() (err error) {
		microblog, err = r.readMicroblog(ctx, byPlatform[identity.Microblog])
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("read people: %w", err)
	}
	out := make(map[Ref]*Profile, len(refs))
	for _, p := range slices.Concat(network, codehost, microblog) {
		if r.Erased(p) {
			continue
		}
		out[Ref{p.Platform, p.Identity}] = p
	}
	return out, nil
}

// Erased reports whether a profile, from wherever it comes, is of somebody who was
// erased.
func (r *Reader) Erased(p *Profile) bool {
	_, erased := r.cfg.Suppressed.Subject(suppress.Subject{Platform: p.Platform, ID: p.Identity, Username: p.Key, Emails: p.Emails})
	return erased
}

func (r *Reader) readNetwork(ctx context.Context, ids []string) (out []*Profile, err error) {
	hashes := make([]uint64, len(ids))
	for i, id := range ids {
		hashes[i] = readmodel.ProfileHash(id)
	}
	return collect(ctx, r.network, hashes, func(row *readmodel.NetworkPersonRow) (*Profile, error) {
		if row.Deleted || !slices.Contains(ids, row.ProfileID) {
			return nil, nil
		}
		return r.networkProfile(row)
	})
}

func (r *Reader) readCodehost(ctx context.Context, ids []string) (out []*Profile, err error) {
	users := make([]int64, 0, len(ids))
	for _, id := range ids {
		if n, err := strconv.ParseInt(id, 10, 64); err == nil {
			users = append(users, n)
		}
	}
	return collect(ctx, r.codehost, users, func(row *readmodel.CodehostPersonRow) (*Profile, error) {
		if row.Deleted {
			return nil, nil
		}
		return r.codehostProfile(row)
	})
}

func (r *Reader) readMicroblog(ctx context.Context, ids []string) (out []*Profile, err error) {
	hashes := make([]uint64, len(ids))
	for i, id := range ids {
		hashes[i] = readmodel.MicroblogHash(id)
	}
	return collect(ctx, r.microblog, hashes, func(row *readmodel.MicroblogPersonRow) (*Profile, error) {
		if row.Deleted || !slices.Contains(ids, row.UserID) {
			return nil, nil
		}
		return r.microblogProfile(row), nil
	})
}

// Holder is who holds a username now; nil when nobody does.
func (r *Reader) Holder(ctx context.Context, a event.Account) (*Profile, error) {
	key := Key{UsernameLookup(a.Platform), identity.UsernameKey(a.Username)}
	found, err := r.Lookup(ctx, []Key{key})
	if err != nil {
		return nil, err
	}
	var refs []Ref
	for _, row := range found[key] {
		if ref, ok := RefOf(row); ok {
			refs = append(refs, ref)
		}
	}
	if len(refs) == 0 {
		return nil, nil
	}
	profiles, err := r.Read(ctx, refs)
	if err != nil {
		return nil, err
	}
	return Newest(profiles, key.Value), nil
}

// Newest is the newest of the profiles that hold a username key now.
func Newest(profiles map[Ref]*Profile, usernameKey string) *Profile {
	var best *Profile
	for _, p := range profiles {
		if p.Key == usernameKey && (best == nil || cmp.Or(cmp.Compare(p.Version, best.Version), cmp.Compare(best.Identity, p.Identity)) > 0) {
			best = p
		}
	}
	return best
}

// UsernameLookup is the lookup type of a platform's usernames.
func UsernameLookup(platform string) readmodel.LookupType {
	return readmodel.LookupType(platform + ".username")
}

// DeclaresLookup is the lookup type under which records of a platform are filed
// by the usernames of another that they declare.
func DeclaresLookup(platform, other string) readmodel.LookupType {
	return readmodel.LookupType(platform + "." + other + "_username")
}

// EmailLookup is the lookup type of a platform's e-mail addresses.
func EmailLookup(platform string) readmodel.LookupType {
	return readmodel.LookupType(platform + ".email")
}

// rowOf is a scan target of readmodel.
type rowOf[T any] interface {
	*T
	Dest() []any
}

// collect reads rows by key and makes profiles of them.
func collect[K int64 | uint64, R any](ctx context.Context, from *gather.Gatherer[K, []R], keys []K, profile func(R) (*Profile, error)) ([]*Profile, error) {
	lists, err := from.Get(ctx, keys)
	if err != nil {
		return nil, err
	}
	var out []*Profile
	for _, list := range lists {
		for _, row := range list {
			p, err := profile(row)
			if err != nil {
				return nil, fmt.Errorf("read record: %w", err)
			}
			if p != nil {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// query runs a query of readmodel when there is a place, and calls scan at each row.
func (r *Reader) query(ctx context.Context, query, keys string, scan func(driver.Rows) error) error {
	select {
	case r.permits <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("query: %w", context.Cause(ctx))
	}
	defer func() { <-r.permits }()
	ctx, cancel := context.WithTimeout(ctx, r.cfg.QueryTimeout)
	defer cancel()
	return r.send(ctx, query, keys, scan)
}

func (r *Reader) send(ctx context.Context, query, keys string, scan func(driver.Rows) error) error {
	ctx = clickhouse.Context(ctx,
		clickhouse.WithParameters(clickhouse.Parameters{readmodel.ParameterKeys: keys}),
		clickhouse.WithSettings(clickhouse.Settings{"max_threads": 1}))
	return ch.ReadRows(ctx, r.conn, query, scan)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
