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

// enliven gives parts with who lives in each: those whose version is the newest, and whose record was not withdrawn.
// Where last, nil if there is none, differs by inserts and merges alone, who had a newer version in it has one still,
// and only new parts are compared.
func (x *Index) enliven(ctx context.Context, active []*part, last *Snapshot) ([]*part, error) {
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
	if err := x.tellApart(ctx, parts, shared); err != nil {
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

// mutated says that parts may have come about otherwise than by inserts and merges: by a deletion, which may bring an
// older version back. Of a part that is gone another has the rows then that was not merged of it as it was: a mutation
// has numbered it, whose number is greater than that of any block that was there (ClickHouse: MergeTreePartInfo).
func mutated(before, after []*part) bool {
	// Another table's parts may have the same names.
	if len(before) > 0 && len(after) > 0 && before[0].folder() != after[0].folder() {
		return true
	}
	is, was := make(map[string]bool), make(map[string]bool)
	for _, p := range before {
		was[p.identity] = true
	}
	for _, p := range after {
		is[p.identity] = true
	}
	for _, gone := range before {
		if is[gone.identity] {
			continue
		}
		i := slices.IndexFunc(after, func(p *part) bool { return !was[p.identity] && p.merged(gone) })
		if i < 0 {
			return true
		}
	}
	return false
}

// blocks are the numbers of a part's name: partition_first_last_level, and _mutation where there was one.
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

// merged says that a part was made of another by merges alone.
func (p *part) merged(of *part) bool {
	b, ok := p.blocks()
	o, also := of.blocks()
	// Blocks of after a mutation have greater numbers than it, and are merged with what it made.
	return ok && also && b.first <= o.first && o.last <= b.last && b.level > o.level &&
		(o.mutation == b.mutation || o.mutation < b.mutation && o.first > b.mutation)
}

// folder is where the table is.
func (p *part) folder() string {
	folder, _, _ := strings.Cut(p.identity, p.name+"/")
	return folder
}

// tellApart reads the profile ids of the people who share a hash with others. There are hardly any.
func (x *Index) tellApart(ctx context.Context, parts []*part, shared map[uint64]bool) error {
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

// supersede takes the older versions of those who are in two parts out of those who live, and notes the hashes that
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

// gallop is the first place from one on whose hash is not less.
func gallop(hashes []uint64, from int, hash uint64) int {
	step := 1
	for from+step < len(hashes) && hashes[from+step] < hash {
		from += step
		step *= 2
	}
	rest := hashes[from:min(from+step+1, len(hashes))]
	return from + sort.Search(len(rest), func(i int) bool { return rest[i] >= hash })
}

// missing says that a row was deleted from its part, so that it is no version of anybody.
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

func (p *part) kill(row int) {
	if p.alive == nil {
		p.allAlive()
	}
	p.alive[row>>6] &^= 1 << (row & 63)
}

// identify reads what tells the versions of a part's people apart.
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
