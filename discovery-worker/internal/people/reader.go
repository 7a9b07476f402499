package people

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/platform/batchload"
	ch "muster/platform/clickhouse"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/suppress"
)

// Config configures a [Reader]. Zero fields mean their defaults.
type Config struct {
	// MaxQueries limits the concurrent queries. Default: number of processors, at least 2.
	MaxQueries int
	// QueryTimeout limits one query. Default 5 s.
	QueryTimeout time.Duration
	// Suppressed is the suppression list: records of its people are not returned. Nil means none.
	Suppressed *suppress.Set
}

// Reader reads profiles. Concurrent reads are batched into one query. It is safe for concurrent
// use.
type Reader struct {
	cfg       Config
	conn      driver.Conn
	platforms *identity.Platforms
	permits   chan struct{}

	lookups  *batchload.Loader[uint64, []readmodel.LookupRow]
	profiles *batchload.Loader[Ref, *readmodel.ProfileRow]
	authors  *batchload.Loader[int64, []string]                            // author names of own commits, most used first
	owners   map[string]*batchload.Loader[uint64, []*readmodel.ProfileRow] // by platform; keys are hashes of usernames
}

// NewReader returns a reader of the read models. The caller must call Close after the last read.
func NewReader(conn driver.Conn, platforms *identity.Platforms, cfg Config) *Reader {
	if cfg.MaxQueries <= 0 {
		cfg.MaxQueries = max(2, runtime.GOMAXPROCS(0))
	}
	if cfg.QueryTimeout <= 0 {
		cfg.QueryTimeout = 5 * time.Second
	}
	r := &Reader{cfg: cfg, conn: conn, platforms: platforms, permits: make(chan struct{}, cfg.MaxQueries)}
	r.lookups = newLoader(r, "lookups", r.fetchLookups)
	r.profiles = newLoader(r, "people", r.fetchProfiles)
	r.authors = newLoader(r, "commit authors", r.fetchAuthors)
	r.owners = make(map[string]*batchload.Loader[uint64, []*readmodel.ProfileRow])
	for _, platform := range identity.PlatformNames() {
		r.owners[platform] = newLoader(r, "holders of usernames",
			func(ctx context.Context, keys []uint64) (map[uint64][]*readmodel.ProfileRow, error) {
				return r.fetchOwners(ctx, platform, keys)
			})
	}
	return r
}

// Close fails running reads and waits for batched queries to end.
func (r *Reader) Close() {
	r.lookups.Close()
	r.profiles.Close()
	r.authors.Close()
	for _, g := range r.owners {
		g.Close()
	}
}

func newLoader[K comparable, V any](r *Reader, name string,
	fetch func(context.Context, []K) (map[K]V, error)) *batchload.Loader[K, V] {
	return batchload.New(context.Background(), batchload.Config[K, V]{
		Name: name, MaxKeys: readmodel.MaxKeys, InFlight: 2, Timeout: r.cfg.QueryTimeout,
		Linger: 200 * time.Microsecond, Permits: r.permits, Fetch: fetch,
	})
}

func (r *Reader) fetchLookups(ctx context.Context, hashes []uint64) (map[uint64][]readmodel.LookupRow, error) {
	return readmodel.ReadLookups(func(query string, scan func(driver.Rows) error) error {
		return r.send(ctx, query, keysParameter(hashes), scan)
	})
}

// fetchProfiles reads accounts of all platforms in one statement.
func (r *Reader) fetchProfiles(ctx context.Context, refs []Ref) (map[Ref]*readmodel.ProfileRow, error) {
	var network, microblog []uint64
	var codehost []int64
	for _, ref := range refs {
		switch ref.Platform {
		case identity.Network:
			network = append(network, readmodel.ProfileHash(ref.Identity))
		case identity.Codehost:
			if id, err := strconv.ParseInt(ref.Identity, 10, 64); err == nil {
				codehost = append(codehost, id)
			}
		case identity.Microblog:
			microblog = append(microblog, readmodel.MicroblogHash(ref.Identity))
		}
	}
	parameters := make(clickhouse.Parameters, 3)
	var platforms []string
	add := func(platform string, n int, keys string) {
		if n > 0 {
			platforms = append(platforms, platform)
			parameters[platform] = keys
		}
	}
	add(identity.Network, len(network), readmodel.FormatKeys(network))
	add(identity.Codehost, len(codehost), readmodel.FormatKeys(codehost))
	add(identity.Microblog, len(microblog), readmodel.FormatKeys(microblog))
	if len(platforms) == 0 {
		return nil, nil
	}
	rows, err := r.newestRows(ctx, readmodel.ProfilesQuery(platforms...), parameters)
	if err != nil {
		return nil, err
	}
	found := make(map[Ref]*readmodel.ProfileRow, len(refs))
	for _, row := range rows {
		found[Ref{row.Platform, row.ID}] = row
	}
	return found, nil
}

// fetchOwners reads the current owners of usernames on a platform, by lookup key.
func (r *Reader) fetchOwners(ctx context.Context, platform string,
	keys []uint64) (map[uint64][]*readmodel.ProfileRow, error) {
	rows, err := r.newestRows(ctx, readmodel.UsernameHistoryQuery(platform), keysParameter(keys))
	if err != nil {
		return nil, err
	}
	found := make(map[uint64][]*readmodel.ProfileRow, len(keys))
	for _, row := range rows {
		key := readmodel.KeyHash(readmodel.LookupUsername(platform), row.UsernameKey)
		found[key] = append(found[key], row)
	}
	return found, nil
}

// newestRows returns the newest rows of accounts that are not deleted.
func (r *Reader) newestRows(ctx context.Context, query string,
	parameters clickhouse.Parameters) ([]*readmodel.ProfileRow, error) {
	var rows []*readmodel.ProfileRow
	err := r.send(ctx, query, parameters, func(list driver.Rows) error {
		row := new(readmodel.ProfileRow)
		if err := list.Scan(row.ScanDest()...); err != nil {
			return err
		}
		rows = append(rows, row)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(readmodel.NewestProfiles(rows),
		func(row *readmodel.ProfileRow) bool { return row.Deleted }), nil
}

// Key is a lookup key.
type Key struct {
	Type  readmodel.LookupType
	Value string
}

// Lookup returns the candidates of keys. Keys with an empty value have none.
func (r *Reader) Lookup(ctx context.Context, keys []Key) (map[Key][]readmodel.LookupRow, error) {
	requested := make(map[Key]bool, len(keys))
	hashes := make([]uint64, 0, len(keys))
	for _, k := range keys {
		if k.Value != "" {
			requested[k] = true
			hashes = append(hashes, readmodel.KeyHash(k.Type, k.Value))
		}
	}
	found := make(map[Key][]readmodel.LookupRow, len(keys))
	slices.Sort(hashes) // types may share a hash
	lists, err := r.lookups.Get(ctx, slices.Compact(hashes))
	if err != nil {
		return nil, fmt.Errorf("look up keys: %w", err)
	}
	for _, list := range lists {
		for _, row := range list {
			if k := (Key{readmodel.LookupType(row.Type), row.Value}); requested[k] {
				found[k] = append(found[k], row)
			}
		}
	}
	return found, nil
}

// LookupEmailSum returns the records that are indexed by an e-mail address with a SHA-256.
func (r *Reader) LookupEmailSum(ctx context.Context, sum [sha256.Size]byte) ([]Ref, error) {
	lists, err := r.lookups.Get(ctx, []uint64{readmodel.EmailHash(sum)})
	if err != nil {
		return nil, fmt.Errorf("look up an address: %w", err)
	}
	var out []Ref
	for _, row := range lists[0] {
		if ref, ok := RefOf(row); ok && row.HasEmailSum(sum) {
			out = append(out, ref)
		}
	}
	return out, nil
}

// Ref identifies a record by platform and stable ID.
type Ref struct{ Platform, Identity string }

// RefOf returns the record that a lookup row names, and false if it names an account.
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

// Read returns the profiles of refs. Missing and deleted ones are absent from the map.
func (r *Reader) Read(ctx context.Context, refs []Ref) (map[Ref]*Profile, error) {
	distinct := make([]Ref, 0, len(refs))
	seen := make(map[Ref]bool, len(refs))
	for _, ref := range refs {
		if !seen[ref] {
			seen[ref] = true
			distinct = append(distinct, ref)
		}
	}
	rows, err := r.profiles.Get(ctx, distinct)
	if err != nil {
		return nil, fmt.Errorf("read profiles: %w", err)
	}
	out := make(map[Ref]*Profile, len(rows))
	for i, row := range rows {
		if row == nil {
			continue
		}
		p, err := r.profile(row)
		if err != nil {
			return nil, fmt.Errorf("read profiles: %w", err)
		}
		if !r.IsErased(p) {
			out[distinct[i]] = p
		}
	}
	return out, r.addAuthorNames(ctx, slices.Collect(maps.Values(out)))
}

// ApplyVersionBumps sets the versions of profiles from the store to their newest version bump.
func (r *Reader) ApplyVersionBumps(ctx context.Context, profiles []*Profile) error {
	var hashes []uint64
	for _, p := range profiles {
		switch p.Platform {
		case identity.Network:
			hashes = append(hashes, readmodel.ProfileHash(p.Identity))
		case identity.Codehost:
			if id, err := strconv.ParseUint(p.Identity, 10, 64); err == nil {
				hashes = append(hashes, id)
			}
		case identity.Microblog:
			hashes = append(hashes, readmodel.MicroblogHash(p.Identity))
		}
	}
	var bumps []readmodel.VersionBumpRow
	for part := range slices.Chunk(hashes, readmodel.MaxKeys) {
		err := r.query(ctx, readmodel.VersionBumpsQuery(), keysParameter(part), func(rows driver.Rows) error {
			var row readmodel.VersionBumpRow
			err := rows.Scan(row.ScanDest()...)
			bumps = append(bumps, row)
			return err
		})
		if err != nil {
			return fmt.Errorf("read version bumps: %w", err)
		}
	}
	for _, p := range profiles {
		if p.row != nil {
			p.Version = p.row.NewestVersion(bumps)
		}
	}
	return nil
}

// IsErased reports whether a profile from any source belongs to an erased person.
func (r *Reader) IsErased(p *Profile) bool {
	_, erased := r.cfg.Suppressed.Subject(suppress.Subject{Platform: p.Platform, ID: p.Identity, Username: p.Key,
		Emails: p.Emails})
	return erased
}

// IsErasedAddress reports whether a normalized e-mail address is that of an erased person.
func (r *Reader) IsErasedAddress(address string) bool { return r.cfg.Suppressed.Author(address) }

// NoReply returns the account that a no-reply address of the code host contains (identity.Platforms.NoReply).
func (r *Reader) NoReply(address string) (userID int64, username string, ok bool) {
	return r.platforms.NoReply(address)
}

// Owner returns the current owner of a username, or nil.
func (r *Reader) Owner(ctx context.Context, a event.Account) (*Profile, error) {
	key := identity.NormalizeUsername(a.Username)
	loader := r.owners[a.Platform]
	if key == "" || loader == nil {
		return nil, nil
	}
	lists, err := loader.Get(ctx, []uint64{readmodel.KeyHash(readmodel.LookupUsername(a.Platform), key)})
	if err != nil {
		return nil, fmt.Errorf("read username owners: %w", err)
	}
	profiles := make(map[Ref]*Profile, 1)
	for _, row := range lists[0] {
		if row.UsernameKey != key { // hash collision
			continue
		}
		p, err := r.profile(row)
		if err != nil {
			return nil, fmt.Errorf("read username owners: %w", err)
		}
		if !r.IsErased(p) {
			profiles[Ref{p.Platform, p.Identity}] = p
		}
	}
	p, err := r.Newest(ctx, profiles, func(*Profile) bool { return true })
	if p == nil || err != nil {
		return nil, err
	}
	return p, r.addAuthorNames(ctx, []*Profile{p})
}

// Newest returns the newest profile for which suits returns true, or nil. Ties are broken by
// identity.
func (r *Reader) Newest(ctx context.Context, profiles map[Ref]*Profile, suits func(*Profile) bool) (*Profile, error) {
	var list []*Profile
	for _, p := range profiles {
		if suits(p) {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	if len(list) > 1 {
		if err := r.ApplyVersionBumps(ctx, list); err != nil {
			return nil, err
		}
	}
	return slices.MaxFunc(list, func(a, b *Profile) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(b.Identity, a.Identity))
	}), nil
}

// rowPointer is a pointer to a scannable row type of readmodel.
type rowPointer[T any] interface {
	*T
	ScanDest() []any
}

// query runs a query when a slot is free, and calls scan for each row.
func (r *Reader) query(ctx context.Context, query string, keys clickhouse.Parameters,
	scan func(driver.Rows) error) error {
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

func keysParameter[K int64 | uint64](keys []K) clickhouse.Parameters {
	return clickhouse.Parameters{readmodel.ParameterKeys: readmodel.FormatKeys(keys)}
}

func (r *Reader) send(ctx context.Context, query string, keys clickhouse.Parameters,
	scan func(driver.Rows) error) error {
	ctx = clickhouse.Context(ctx,
		clickhouse.WithParameters(keys),
		clickhouse.WithSettings(clickhouse.Settings{"max_threads": 1}))
	return ch.ReadRows(ctx, r.conn, query, scan)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
