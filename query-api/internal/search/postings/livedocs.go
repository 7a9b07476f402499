package postings

import (
	"context"
	"maps"
	"math/bits"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"muster/query-api/internal/search/planner"
)

// resolveLiveDocs returns the parts with their live documents: the newest version of each profile, unless it is
// deleted. If last, which may be nil, differs only by inserts and merges, rows that were superseded in it still are,
// and only new parts are compared.
func (x *Index) resolveLiveDocs(ctx context.Context, active []*part, last *Snapshot) ([]*part, error) {
	known := make(map[string]*part)
	if last != nil && !mutated(last.parts, active) {
		for _, p := range last.parts {
			known[p.identity] = p
		}
	}
	parts, isNew := make([]*part, len(active)), make([]bool, len(active))
	for i, p := range active {
		if len(active) > 1 && p.identified == nil {
			if err := x.identify(ctx, p); err != nil {
				return nil, err
			}
		}
		own := *p
		if k := known[p.identity]; k != nil {
			own.alive = slices.Clone(k.alive)
		} else {
			isNew[i], own.alive = true, nil
			if p.deleted != nil {
				own.allAlive()
				for i := range own.alive {
					own.alive[i] &^= p.deleted[i]
				}
			}
		}
		parts[i] = &own
	}
	if len(active) > 1 { // whether they are as they were when they were identified
		again, err := x.active(ctx)
		if err != nil {
			return nil, err
		}
		if !slices.EqualFunc(again.people, active, samePart) {
			return nil, errChanged
		}
	}
	shared := make(map[uint64]bool)
	for _, p := range parts {
		for _, hash := range p.twins {
			shared[hash] = true
		}
		if k := known[p.identity]; k != nil {
			for row := range k.ids {
				shared[k.hashes[row]] = true
			}
		}
	}
	for i, small := range parts {
		for j, large := range parts[:i] {
			if isNew[i] || isNew[j] {
				supersede(large, small, shared)
			}
		}
	}
	if err := x.readSharedIDs(ctx, parts, shared); err != nil {
		return nil, err
	}
	for _, p := range parts {
		living := 0
		for _, w := range p.alive {
			living += bits.OnesCount64(w)
		}
		if living == p.size {
			p.alive = nil
		}
	}
	return parts, nil
}

// mutated reports whether parts may have changed other than by inserts and merges: by a deletion, which may bring an
// older version back. A missing part whose rows were not merged unchanged was mutated; the number of a mutation is
// greater than that of any block that existed (ClickHouse: MergeTreePartInfo).
func mutated(before, after []*part) bool {
	// Another table's parts may have the same names.
	if len(before) > 0 && len(after) > 0 && before[0].directory() != after[0].directory() {
		return true
	}
	is, was := make(map[string]bool), make(map[string]bool)
	for _, p := range before {
		was[p.identity] = true
	}
	for _, p := range after {
		is[p.identity] = true
	}
	for _, old := range before {
		if is[old.identity] {
			continue
		}
		i := slices.IndexFunc(after, func(p *part) bool { return !was[p.identity] && p.merged(old) })
		if i < 0 {
			return true
		}
	}
	return false
}

// blocks are the numbers in a part's name: partition_first_last_level, then _mutation if there was one.
type blocks struct{ first, last, level, mutation uint64 }

func (p *part) blocks() (b blocks, ok bool) {
	fields := strings.Split(p.name, "_")
	if len(fields) != 4 && len(fields) != 5 { // its partition is "all"
		return blocks{}, false
	}
	for i, to := range []*uint64{&b.first, &b.last, &b.level, &b.mutation}[:len(fields)-1] {
		var err error
		if *to, err = strconv.ParseUint(fields[i+1], 10, 64); err != nil {
			return blocks{}, false
		}
	}
	return b, true
}

// merged reports whether a part was created from another by merges alone.
func (p *part) merged(of *part) bool {
	b, ok := p.blocks()
	o, also := of.blocks()
	return ok && also && b.first <= o.first && o.last <= b.last && b.level > o.level &&
		(o.mutation == b.mutation || o.mutation < b.mutation && o.first > b.mutation)
}

// directory returns where the table is stored.
func (p *part) directory() string {
	folder, _, _ := strings.Cut(p.identity, p.name+"/")
	return folder
}

// readSharedIDs reads the profile IDs of people whose hash is not unique. There are hardly any.
func (x *Index) readSharedIDs(ctx context.Context, parts []*part, shared map[uint64]bool) error {
	hashes := slices.Sorted(maps.Keys(shared))
	for _, p := range parts {
		p.ids = nil
		rows := 0
		for _, hash := range hashes {
			for row := p.row(hash); row < p.size && p.hashes[row] == hash; row++ {
				rows++
			}
		}
		if rows == 0 {
			continue
		}
		p.ids = make(map[int]string)
		var row uint32
		var id string
		err := x.query(
			ctx,
			stepShared,
			p.replica.Read(planner.SharedStatement(hashes, p.name)),
			func(r driver.Rows) error {
				if err := r.Scan(&row, &id); err != nil {
					return err
				}
				p.ids[int(row)] = id
				return nil
			},
		)
		if err != nil {
			return err
		}
		if len(p.ids) == 0 {
			return errChanged
		}
	}
	return nil
}

// supersede removes from the live documents the older versions of people in two parts, and collects the hashes that
// several people share.
func supersede(large, small *part, shared map[uint64]bool) {
	from := 0
	for row, hash := range small.hashes {
		from = gallop(large.hashes, from, hash)
		for other := from; other < large.size && large.hashes[other] == hash; other++ {
			if small.missing(row) || large.missing(other) {
				continue
			}
			if small.identified.seconds[row] != large.identified.seconds[other] {
				shared[hash] = true
				continue
			}
			a, b := small.identified, large.identified
			newer := a.versions[row] > b.versions[other] ||
				a.versions[row] == b.versions[other] && a.contents[row] >= b.contents[other]
			if newer {
				large.kill(other)
			} else {
				small.kill(row)
			}
		}
	}
}

// gallop returns the first index, from a start, whose hash is not less (galloping search).
func gallop(hashes []uint64, from int, hash uint64) int {
	step := 1
	for from+step < len(hashes) && hashes[from+step] < hash {
		from += step
		step *= 2
	}
	rest := hashes[from:min(from+step+1, len(hashes))]
	return from + sort.Search(len(rest), func(i int) bool { return rest[i] >= hash })
}

// missing reports whether a row was deleted from its part. It is no version then.
func (p *part) missing(row int) bool {
	return p.identified.seconds[row] == 0 && p.identified.versions[row] == 0 && p.identified.contents[row] == 0
}

func (p *part) allAlive() {
	p.alive = make([]uint64, words(p.size))
	for i := range p.alive {
		p.alive[i] = ^uint64(0)
	}
	clip(0, p.size, p.alive)
}

// visible returns the bits of the live rows that are not of hidden people, nil if no other row has texts.
func (p *part) visible(hidden []uint64) []uint64 {
	shown := part{size: p.size, alive: slices.Clone(p.alive)}
	if shown.alive == nil {
		shown.allAlive()
	}
	for _, hash := range hidden {
		for row := p.row(hash); row < p.size && p.hashes[row] == hash; row++ {
			shown.kill(row)
		}
	}
	without := p.size
	for w := range shown.alive {
		without -= bits.OnesCount64(shown.alive[w])
		if p.deleted != nil {
			without -= bits.OnesCount64(p.deleted[w])
		}
	}
	if without == 0 && !p.masked {
		return nil
	}
	return shown.alive
}

func (p *part) kill(row int) {
	if p.alive == nil {
		p.allAlive()
	}
	p.alive[row>>6] &^= 1 << (row & 63)
}

// identify reads what identifies the versions of a part's people.
func (x *Index) identify(ctx context.Context, p *part) error {
	ids := &identities{
		seconds:  make([]uint64, p.size),
		versions: make([]int64, p.size),
		contents: make([]uint64, p.size),
	}
	var offset uint32
	var second, content uint64
	var version int64
	n := 0
	err := x.query(
		ctx,
		stepVersions,
		p.replica.Read(planner.IdentitiesStatement(p.name)),
		func(rows driver.Rows) error {
			if err := rows.Scan(&offset, &second, &version, &content); err != nil {
				return err
			}
			if int(offset) >= p.size {
				return errChanged
			}
			ids.seconds[offset], ids.versions[offset], ids.contents[offset] = second, version, content
			n++
			return nil
		},
	)
	if err != nil {
		return err
	}
	if n == 0 && p.size > 0 {
		return errChanged
	}
	p.identified = ids
	return nil
}
