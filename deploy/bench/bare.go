package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"

	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// scanner is a row that knows where its columns go.
type scanner[T any] interface {
	*T
	Dest() []any
}

// in reads the rows of keys with one query.
func in[T any, P scanner[T], K int64 | uint64](ctx context.Context, b *bench, query string, keys []K) (list []T, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ctx = clickhouse.Context(ctx,
		clickhouse.WithParameters(clickhouse.Parameters{readmodel.ParameterKeys: readmodel.FormatKeys(keys)}),
		clickhouse.WithSettings(clickhouse.Settings{"max_threads": 1}))
	rows, err := b.conn.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var row T
		if err := rows.Scan(P(&row).Dest()...); err != nil {
			return nil, err
		}
		list = append(list, row)
	}
	return list, rows.Err()
}

// lookups reads the candidates of the values under each of the types, in as
// many queries as their number of keys needs.
func (b *bench) lookups(ctx context.Context, values []string, types ...readmodel.LookupType) (list []readmodel.LookupRow, err error) {
	var keys []uint64
	for _, v := range values {
		for _, t := range types {
			keys = append(keys, readmodel.KeyHash(t, v))
		}
	}
	for part := range slices.Chunk(keys, readmodel.MaxKeys) {
		rows, err := in[readmodel.LookupRow](ctx, b, readmodel.LookupQuery(), part)
		if err != nil {
			return nil, err
		}
		list = append(list, readmodel.NewestLookups(rows)...)
	}
	return list, nil
}

func usernameKeys(names []string) []string {
	keys := make([]string, len(names))
	for i, n := range names {
		keys[i] = identity.UsernameKey(n)
	}
	return keys
}

func userIDs(rows []readmodel.LookupRow) (ids []int64, err error) {
	for _, r := range rows {
		if r.TargetKind != readmodel.TargetCodehostPerson {
			continue
		}
		id, err := strconv.ParseInt(r.Target, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("lookup target %q: %w", r.Target, err)
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

func profileHashes(rows []readmodel.LookupRow) (hashes []uint64) {
	for _, r := range rows {
		if r.TargetKind == readmodel.TargetNetworkPerson {
			hashes = append(hashes, readmodel.ProfileHash(r.Target))
		}
	}
	slices.Sort(hashes)
	return slices.Compact(hashes)
}

// bareEnrich reads what the enrichment of code-host usernames needs: who holds
// them and what is linked to them, the accounts with repositories and commits,
// who holds the declared network usernames, and the network people.
func (b *bench) bareEnrich(ctx context.Context, names []string) (int, error) {
	found, err := b.lookups(ctx, usernameKeys(names),
		readmodel.LookupCodehostUsername, readmodel.LookupNetworkCodehostUsername, readmodel.LookupLinkCodehost)
	if err != nil {
		return 0, err
	}
	ids, err := userIDs(found)
	if err != nil {
		return 0, err
	}
	accounts, err := in[readmodel.CodehostPersonRow](ctx, b, readmodel.CodehostPeopleQuery(readmodel.CodehostEnrich), ids)
	if err != nil {
		return 0, err
	}
	if err := b.entries(ctx, ids, readmodel.EntryEnrich, readmodel.EntryFull); err != nil {
		return 0, err
	}
	var declared []string
	for _, a := range accounts {
		declared = append(declared, a.NetworkUsernameKeys...)
	}
	for _, r := range found {
		if _, username, ok := cutAccount(r); ok {
			declared = append(declared, username)
		}
	}
	linked, err := b.lookups(ctx, declared, readmodel.LookupNetworkUsername)
	if err != nil {
		return 0, err
	}
	for part := range slices.Chunk(profileHashes(append(linked, found...)), 128) {
		if _, err := in[readmodel.NetworkPersonRow](ctx, b, readmodel.NetworkPeopleQuery(readmodel.NetworkEnrich), part); err != nil {
			return 0, err
		}
	}
	return min(len(accounts), len(names)), nil
}

// bareAddons reads what the network webset with both add-ons needs.
func (b *bench) bareAddons(ctx context.Context, names []string) (int, error) {
	found, err := b.lookups(ctx, usernameKeys(names),
		readmodel.LookupNetworkUsername, readmodel.LookupCodehostNetworkUsername, readmodel.LookupLinkNetwork)
	if err != nil {
		return 0, err
	}
	var people []readmodel.NetworkPersonRow
	columns := readmodel.NetworkWebset | readmodel.NetworkOpen
	for part := range slices.Chunk(profileHashes(found), readmodel.MaxKeys) {
		rows, err := in[readmodel.NetworkPersonRow](ctx, b, readmodel.NetworkPeopleQuery(columns), part)
		if err != nil {
			return 0, err
		}
		people = append(people, rows...)
	}
	var declared []string
	for _, p := range people {
		declared = append(declared, p.CodehostUsernameKeys...)
	}
	for _, r := range found {
		if _, username, ok := cutAccount(r); ok {
			declared = append(declared, username)
		}
	}
	linked, err := b.lookups(ctx, declared, readmodel.LookupCodehostUsername)
	if err != nil {
		return 0, err
	}
	ids, err := userIDs(append(linked, found...))
	if err != nil {
		return 0, err
	}
	for part := range slices.Chunk(ids, readmodel.MaxKeys) {
		if _, err := in[readmodel.CodehostPersonRow](ctx, b, readmodel.CodehostPeopleQuery(readmodel.CodehostAddon|readmodel.CodehostAddonOpen), part); err != nil {
			return 0, err
		}
		if err := b.entries(ctx, part, readmodel.EntryFull, readmodel.EntryFull); err != nil {
			return 0, err
		}
	}
	return min(len(people), len(names)), nil
}

func (b *bench) entries(ctx context.Context, ids []int64, repos, commits readmodel.EntryColumns) error {
	if _, err := in[readmodel.EntriesRow](ctx, b, readmodel.ReposQuery(repos), ids); err != nil {
		return err
	}
	_, err := in[readmodel.EntriesRow](ctx, b, readmodel.CommitsQuery(commits), ids)
	return err
}

// strings reads a column of text.
func (b *bench) strings(ctx context.Context, query string) (list []string, err error) {
	rows, err := b.conn.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}

// cutAccount returns the account at the other end of an account link.
func cutAccount(r readmodel.LookupRow) (platform, username string, ok bool) {
	if r.TargetKind != readmodel.TargetAccount {
		return "", "", false
	}
	return strings.Cut(r.Target, ":")
}
