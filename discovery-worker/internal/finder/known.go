package finder

import (
	"context"

	"muster/discovery-worker/internal/people"
	"muster/schemas/readmodel"
)

// known is what one discovery has read, so that no stage reads it again: a statement
// costs the store more than what it looks for. It is used by one goroutine at a time.
type known struct {
	reader   *people.Reader
	rows     map[people.Key][]readmodel.LookupRow // nil: there are none
	profiles map[people.Ref]*people.Profile       // nil: there is none
}

func newKnown(reader *people.Reader) *known {
	return &known{reader: reader, rows: make(map[people.Key][]readmodel.LookupRow), profiles: make(map[people.Ref]*people.Profile)}
}

// lookup is Reader.Lookup; keys that are not asked for may be in the answer too.
func (k *known) lookup(ctx context.Context, keys []people.Key) (map[people.Key][]readmodel.LookupRow, error) {
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

// read is Reader.Read.
func (k *known) read(ctx context.Context, refs []people.Ref) (map[people.Ref]*people.Profile, error) {
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
