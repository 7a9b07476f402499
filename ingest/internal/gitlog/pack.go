package gitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-git/v5/plumbing"
)

// pack is a packfile with its index of version 2 (gitformat-pack(5)). Neither is held in
// memory.
type pack struct {
	name  string
	fan   [256]uint32 // how many objects' names begin with a byte up to this one
	index billy.File
	data  billy.File
	size  int64
}

const (
	packNames   = 8 + 256*4 // where the names stand in an index
	packTrailer = 20        // the checksum at the end of a pack
	maxOpened   = 128       // packs that are open at once
)

func (p *pack) close() error {
	if p.index == nil {
		return nil
	}
	err := errors.Join(p.index.Close(), p.data.Close())
	p.index, p.data = nil, nil
	return err
}

// open opens a pack's files, if they are not.
func (o *objects) open(p *pack) error {
	if p.index != nil {
		return nil
	}
	if o.opened == maxOpened {
		if err := o.close(); err != nil {
			return fmt.Errorf("close packs: %w", err)
		}
	}
	path := o.fs.Join("objects", "pack", p.name)
	info, err := o.fs.Stat(path + ".pack")
	if err != nil {
		return err // names operation, path and cause
	}
	index, err := o.fs.Open(path + ".idx")
	if err != nil {
		return err // names operation, path and cause
	}
	data, err := o.fs.Open(path + ".pack")
	if err != nil {
		return errors.Join(err, index.Close())
	}
	p.index, p.data, p.size = index, data, info.Size()
	o.opened++
	return nil
}

// list finds the packs.
func (o *objects) list() error {
	if o.listed {
		return nil
	}
	files, err := o.fs.ReadDir(o.fs.Join("objects", "pack"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // names operation, path and cause
	}
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".idx")
		if !ok {
			continue
		}
		p := &pack{name: name}
		if err := o.open(p); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				continue // an index without its pack
			}
			return err
		}
		o.packs = append(o.packs, p)
		if err := p.begin(); err != nil {
			return fmt.Errorf("index of %s: %w", name, err)
		}
	}
	o.listed = true
	return nil
}

// begin reads the beginning of an index.
func (p *pack) begin() error {
	var head [packNames]byte
	if _, err := p.index.ReadAt(head[:], 0); err != nil {
		return damaged(err)
	}
	if !bytes.Equal(head[:8], []byte{0xff, 't', 'O', 'c', 0, 0, 0, 2}) {
		return errors.New("is not of version 2")
	}
	for i := range p.fan {
		p.fan[i] = binary.BigEndian.Uint32(head[8+4*i:])
		if i > 0 && p.fan[i] < p.fan[i-1] {
			return errDamaged
		}
	}
	return nil
}

// find finds an object in the packs.
func (o *objects) find(h plumbing.Hash) (*pack, int64, error) {
	if err := o.list(); err != nil {
		return nil, 0, err
	}
	for i, p := range o.packs {
		if err := o.open(p); err != nil {
			return nil, 0, err
		}
		offset, ok, err := p.find(h)
		if err != nil {
			return nil, 0, fmt.Errorf("index of %s: %w", p.name, err)
		}
		if ok {
			// The next object is most likely in the same pack.
			o.packs[0], o.packs[i] = o.packs[i], o.packs[0]
			return p, offset, nil
		}
	}
	return nil, 0, plumbing.ErrObjectNotFound
}

// find finds an object's place in the pack.
func (p *pack) find(h plumbing.Hash) (int64, bool, error) {
	low, high, all := int64(0), int64(p.fan[h[0]]), int64(p.fan[255])
	if h[0] > 0 {
		low = int64(p.fan[h[0]-1])
	}
	for low < high {
		middle := (low + high) / 2
		var name plumbing.Hash
		if _, err := p.index.ReadAt(name[:], packNames+middle*20); err != nil {
			return 0, false, damaged(err)
		}
		switch c := bytes.Compare(h[:], name[:]); {
		case c < 0:
			high = middle
			continue
		case c > 0:
			low = middle + 1
			continue
		}
		const wide = 1 << 31 // the place stands in the table of wide ones
		var b [8]byte
		places := packNames + all*24 // behind names and checksums
		if _, err := p.index.ReadAt(b[:4], places+middle*4); err != nil {
			return 0, false, damaged(err)
		}
		offset := int64(binary.BigEndian.Uint32(b[:]))
		if offset >= wide {
			if _, err := p.index.ReadAt(b[:], places+all*4+(offset-wide)*8); err != nil {
				return 0, false, damaged(err)
			}
			offset = int64(min(binary.BigEndian.Uint64(b[:]), math.MaxInt64))
		}
		return offset, true, nil
	}
	return 0, false, nil
}

// entry is an object's header in a pack.
type entry struct {
	kind plumbing.ObjectType
	size int64 // of what is inflated
	base int64 // the place of the base of a delta
}

// entry reads the header of the object at a place; o.in is then behind it.
func (o *objects) entry(p *pack, offset int64) (e entry, err error) {
	if offset < 12 || offset >= p.size-packTrailer {
		return e, errDamaged
	}
	if err := o.open(p); err != nil {
		return e, err
	}
	o.in.Reset(io.NewSectionReader(p.data, offset, p.size-packTrailer-offset))
	b, err := o.in.ReadByte()
	e.kind, e.size = plumbing.ObjectType(b>>4&7), int64(b&15)
	for shift := 4; err == nil && b >= 0x80; shift += 7 {
		if shift > 50 {
			return e, errDamaged
		}
		b, err = o.in.ReadByte()
		e.size |= int64(b&0x7f) << shift
	}
	if err != nil {
		return e, damaged(err)
	}
	switch e.kind {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
	case plumbing.OFSDeltaObject:
		var back int64
		for i := 0; ; i++ {
			if b, err = o.in.ReadByte(); err != nil || i == 8 {
				return e, damaged(err)
			}
			back = back<<7 | int64(b&0x7f)
			if b < 0x80 {
				break
			}
			back++
		}
		if e.base = offset - back; back == 0 {
			return e, errDamaged
		}
	case plumbing.REFDeltaObject:
		var h plumbing.Hash
		if _, err := io.ReadFull(o.in, h[:]); err != nil {
			return e, damaged(err)
		}
		var ok bool
		if e.base, ok, err = p.find(h); err != nil || !ok {
			return e, damaged(err)
		}
	default:
		return e, errDamaged
	}
	return e, nil
}
