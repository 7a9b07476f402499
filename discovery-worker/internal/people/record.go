package people

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// Record is what is served of an account: the record of its webset.
type Record struct {
	Ref
	Username  string
	UpdatedAt string
	// JSON is the webset's record without its lists of repositories and commits; of
	// the microblog an object of name, bio, location and website.
	JSON jsontext.Value
}

// Records reads records as they are served, add-ons for e-mail included; those that
// do not exist, or were withdrawn, are missing.
func (r *Reader) Records(ctx context.Context, refs []Ref) (map[Ref]Record, error) {
	out := make(map[Ref]Record, len(refs))
	var network []uint64
	var codehost []int64
	for _, ref := range refs {
		switch ref.Platform {
		case identity.Network:
			network = append(network, readmodel.ProfileHash(ref.Identity))
		case identity.Codehost:
			if n, err := strconv.ParseInt(ref.Identity, 10, 64); err == nil {
				codehost = append(codehost, n)
			}
		}
	}
	people, err := rowsOf(ctx, r, readmodel.NetworkPeopleQuery(readmodel.NetworkWebset|readmodel.NetworkOpen), network, readmodel.FreshenNetworkPeople)
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	for _, row := range people {
		ref := Ref{identity.Network, row.ProfileID}
		if !row.Deleted && slices.Contains(refs, ref) {
			out[ref] = Record{ref, row.Username, record.Version(row.Version).String(), object(row.WebsetShared, row.WebsetRest, row.WebsetEmail)}
		}
	}
	developers, err := rowsOf(ctx, r, readmodel.CodehostPeopleQuery(readmodel.CodehostWebset), codehost, readmodel.FreshenCodehostPeople)
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	for _, row := range developers {
		ref := Ref{identity.Codehost, itoa(row.UserID)}
		if !row.Deleted && !row.IsOrganization() && slices.Contains(refs, ref) {
			out[ref] = Record{ref, row.CodehostUsername, record.Version(row.Version).String(), object(row.Webset)}
		}
	}
	return out, nil
}

// rowsOf reads rows by key and gives them the versions that were seen since.
func rowsOf[K int64 | uint64, T any, R rowOf[T]](ctx context.Context, r *Reader, query string, keys []K, freshen func([]R) []R) ([]R, error) {
	var out []R
	for part := range slices.Chunk(keys, readmodel.MaxKeys) {
		var list []R
		err := r.query(ctx, query, keysParameter(part), func(rows driver.Rows) error {
			row := R(new(T))
			if err := rows.Scan(row.Dest()...); err != nil {
				return err
			}
			list = append(list, row)
			return nil
		})
		if err != nil {
			return nil, err
		}
		out = append(out, freshen(list)...)
	}
	return out, nil
}
