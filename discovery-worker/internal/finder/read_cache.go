package finder

import (
	"context"

	"muster/discovery-worker/internal/people"
	"muster/schemas/readmodel"
)

// readCache caches the reads of one discovery: a statement costs the store more than the rows in
// it. It is not safe for concurrent use.
type readCache struct {
	reader   *people.Reader
	rows     map[people.Key][]readmodel.LookupRow // nil if there are none
	profiles map[people.Ref]*people.Profile       // nil if there is none
}

func newReadCache(reader *people.Reader) *readCache {
	return &readCache{reader: reader, rows: make(map[people.Key][]readmodel.LookupRow),
		profiles: make(map[people.Ref]*people.Profile)}
}

// lookup is Reader.Lookup with a cache. The result may contain other keys.
func (k *readCache) lookup(ctx context.Context, keys []people.Key) (map[people.Key][]readmodel.LookupRow, error) {
	var missing []people.Key
	for _, key := range keys {
		if _, have := k.rows[key]; !have {
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return k.rows, nil
	}
	found, err := k.reader.Lookup(ctx, missing)
	if err != nil {
		return nil, err
	}
	for _, key := range missing {
		k.rows[key] = found[key]
	}
	return k.rows, nil
}

// read is Reader.Read with a cache.
func (k *readCache) read(ctx context.Context, refs []people.Ref) (map[people.Ref]*people.Profile, error) {
	var missing []people.Ref
	for _, ref := range refs {
		if _, have := k.profiles[ref]; !have {
			missing = append(missing, ref)
		}
	}
	if len(missing) > 0 {
		found, err := k.reader.Read(ctx, missing)
		if err != nil {
			return nil, err
		}
		for _, ref := range missing {
			k.profiles[ref] = found[ref]
		}
	}
	out := make(map[people.Ref]*people.Profile, len(refs))
	for _, ref := range refs {
		if p := k.profiles[ref]; p != nil {
			out[ref] = p
		}
	}
	return out, nil
}
