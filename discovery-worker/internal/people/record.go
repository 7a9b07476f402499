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

// Record is a record of an account's webset, as it is served.
type Record struct {
	Ref
	Username  string
	UpdatedAt string
	// Emails are the comparison keys of the account's addresses, including those of its own commits.
	Emails []string
	// JSON is the webset record without its lists of repositories and commits. For the microblog it
	// is an object with name, bio, location and website.
	JSON jsontext.Value
}

// Records returns records as they are served, including the e-mail add-on. Missing and deleted ones
// are absent from the map.
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
	people, err := readRows[uint64, readmodel.NetworkPersonRow](ctx, r, readmodel.NetworkPeopleQuery(), network)
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	developers, err := readRows[int64, readmodel.AnswerRow](ctx, r, readmodel.AnswersQuery(), codehost)
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	keys := network
	for _, id := range codehost {
		keys = append(keys, uint64(id)) //nolint:gosec // as seen_versions has it
	}
	bumps, err := readRows[uint64, readmodel.VersionBumpRow](ctx, r, readmodel.VersionBumpsQuery(), keys)
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	versions := make([]readmodel.VersionBumpRow, len(bumps))
	for i, s := range bumps {
		versions[i] = *s
	}
	for _, row := range readmodel.NewestNetworkPeople(people) {
		ref := Ref{identity.Network, row.ProfileID}
		if !row.Deleted && slices.Contains(refs, ref) {
			version := readmodel.NewestVersion(
				record.KindNetworkPerson,
				ref.Identity,
				row.Version,
				row.ContentHash,
				versions,
			)
			out[ref] = Record{ref, row.Username, record.Version(version).String(), row.EmailKeys,
				append(row.Append([]byte{'{'}, readmodel.ShapeWebset, true), '}')}
		}
	}
	newest := make(map[int64]*readmodel.AnswerRow, len(developers))
	for _, row := range developers {
		if other := newest[row.UserID]; other == nil || row.Newer(other) {
			newest[row.UserID] = row
		}
	}
	for _, row := range newest {
		ref := Ref{identity.Codehost, itoa(row.UserID)}
		if !row.Deleted && !row.IsOrganization() && slices.Contains(refs, ref) {
			version := readmodel.NewestVersion(record.KindCodehostPerson, ref.Identity, row.Version, row.ContentHash,
				versions)
			out[ref] = Record{ref, row.CodehostUsername, record.Version(version).String(),
				slices.Concat(row.EmailKeys, row.DerivedEmailKeys()),
				append(row.WithoutAuthors().AppendAccount([]byte{'{'}, readmodel.ShapeWebset), '}')}
		}
	}
	return out, nil
}

// readRows reads rows by key, in statements of at most readmodel.MaxKeys keys.
func readRows[K int64 | uint64, T any, R rowPointer[T]](ctx context.Context, r *Reader, query string,
	keys []K) ([]R, error) {
	var out []R
	for part := range slices.Chunk(keys, readmodel.MaxKeys) {
		err := r.query(ctx, query, keysParameter(part), func(rows driver.Rows) error {
			row := R(new(T))
			if err := rows.Scan(row.ScanDest()...); err != nil {
				return err
			}
			out = append(out, row)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
