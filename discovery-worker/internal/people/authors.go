package people

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// maxAuthorNames is the maximum number of names that an account gets from its commits.
const maxAuthorNames = 3

// addAuthorNames gives the accounts of the code host without a full name the author names of their
// own commits.
func (r *Reader) addAuthorNames(ctx context.Context, profiles []*Profile) error {
	byID := make(map[int64]*Profile)
	var ids []int64
	for _, p := range profiles {
		if p.Platform != identity.Codehost || !p.Person || slices.ContainsFunc(p.Names, isFullName) {
			continue
		}
		if id, err := strconv.ParseInt(p.Identity, 10, 64); err == nil {
			byID[id] = p
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	lists, err := r.authors.Get(ctx, ids)
	if err != nil {
		return fmt.Errorf("read commit authors: %w", err)
	}
	for i, list := range lists {
		p := byID[ids[i]]
		var names []string
		for _, entry := range list {
			login, name, _ := strings.Cut(entry, "\x00")
			if (login == "" || login == p.Key) && isFullName(name) && len(names) < maxAuthorNames {
				names = append(names, name)
			}
		}
		p.Names = distinct(append(p.Names, names...)...)
	}
	return nil
}

func isFullName(name string) bool {
	return len(identity.NameTokens(name)) > 1 && len(identity.NameBlockingKeys(name)) > 0
}

// fetchAuthors reads the login and name of the authors of commits, separated by a NUL, by account:
// the most used first.
func (r *Reader) fetchAuthors(ctx context.Context, ids []int64) (map[int64][]string, error) {
	counts := make(map[int64]map[string]int, len(ids))
	err := r.send(ctx, readmodel.CommitAuthorsQuery(), keysParameter(ids), func(rows driver.Rows) error {
		var id int64
		var login, name string
		err := rows.Scan(&id, &login, &name)
		if counts[id] == nil {
			counts[id] = make(map[string]int)
		}
		counts[id][login+"\x00"+name]++
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make(map[int64][]string, len(counts))
	for id, names := range counts {
		out[id] = slices.SortedFunc(maps.Keys(names), func(a, b string) int {
			return cmp.Or(cmp.Compare(names[b], names[a]), strings.Compare(a, b))
		})
	}
	return out, nil
}
