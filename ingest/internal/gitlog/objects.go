package gitlog

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// maxObject bounds a commit, a tag, a tree or a .mailmap in bytes, and whatever it is
// made of in a pack. Larger ones are not read: a few hundred bytes of a repository may
// stand for gigabytes of an object.
const maxObject = 4 << 20

// maxTrees bounds the trees that are read for one history, in bytes together.
const maxTrees = 64 << 20

// maxDepth bounds how many deltas an object is made by; git itself makes 50, and never
// more than 4095.
const maxDepth = 4095

// maxBases is how many bytes of objects that others are made of are kept.
const maxBases = 32 << 20

var (
	errLarge   = fmt.Errorf("larger than %d MiB", maxObject>>20)
	errDamaged = errors.New("damaged")
)

// objects reads the objects of a repository, one at a time, in memory that is bounded
// whatever their sizes are said to be. The store of go-git, which is under it for all
// else, reads any object whole, and follows alternates for ever that lead back. Here
// the objects are those of the repository itself, without alternates.
type objects struct {
	storer.EncodedObjectStorer
	fs     billy.Filesystem
	packs  []*pack
	listed bool
	opened int
	bases  map[base]content
	held   int
	trees  int64 // bytes of trees that may still be read
	in     *bufio.Reader
	zip    io.ReadCloser
}

// base is the place of an object that another one is made of.
type base struct {
	pack   *pack
	offset int64
}

type content struct {
	kind plumbing.ObjectType
	data []byte
}

func newObjects(store storer.EncodedObjectStorer, files billy.Filesystem) *objects {
	return &objects{EncodedObjectStorer: store, fs: files, bases: map[base]content{}, trees: maxTrees, in: bufio.NewReader(nil)}
}

// close closes the packs; they are opened again when something is read.
func (o *objects) close() error {
	var errs []error
	for _, p := range o.packs {
		errs = append(errs, p.close())
	}
	o.opened = 0
	return errors.Join(errs...)
}

// EncodedObject implements storer.EncodedObjectStorer.
func (o *objects) EncodedObject(kind plumbing.ObjectType, h plumbing.Hash) (plumbing.EncodedObject, error) {
	c, err := o.read(h)
	if err != nil {
		return nil, err
	}
	if kind != plumbing.AnyObject && kind != c.kind {
		return nil, plumbing.ErrObjectNotFound
	}
	if c.kind == plumbing.TreeObject {
		if o.trees -= int64(len(c.data)); o.trees < 0 {
			return nil, fmt.Errorf("trees of more than %d MiB", maxTrees>>20)
		}
	}
	if plumbing.ComputeHash(c.kind, c.data) != h {
		return nil, fmt.Errorf("%w: its bytes are another one's", errDamaged)
	}
	m := &plumbing.MemoryObject{}
	m.SetType(c.kind)
	if _, err := m.Write(c.data); err != nil {
		return nil, fmt.Errorf("copy: %w", err)
	}
	return m, nil
}

// kind tells what an object is without reading it.
func (o *objects) kind(h plumbing.Hash) (plumbing.ObjectType, error) {
	kind, _, closing, err := o.loose(h)
	if err == nil {
		return kind, closing()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	p, offset, err := o.find(h)
	for range maxDepth {
		if err != nil {
			return 0, err
		}
		var e entry
		if e, err = o.entry(p, offset); err == nil && !e.kind.IsDelta() {
			return e.kind, nil
		}
		offset = e.base
	}
	return 0, errDamaged
}

// read returns an object's bytes, of at most maxObject.
func (o *objects) read(h plumbing.Hash) (content, error) {
	kind, size, closing, err := o.loose(h)
	if errors.Is(err, fs.ErrNotExist) {
		p, offset, err := o.find(h)
		if err != nil {
			return content{}, err
		}
		return o.packed(p, offset)
	}
	if err != nil {
		return content{}, err
	}
	data, err := o.inflate(size)
	if err := errors.Join(err, closing()); err != nil {
		return content{}, err
	}
	return content{kind, data}, nil
}

// loose begins to read an object that has a file of its own: o.zip is behind its header.
func (o *objects) loose(h plumbing.Hash) (kind plumbing.ObjectType, size int64, closing func() error, err error) {
	name := h.String()
	f, err := o.fs.Open(o.fs.Join("objects", name[:2], name[2:]))
	if err != nil {
		return 0, 0, nil, err // names operation, path and cause
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	o.in.Reset(f)
	if err = o.unzip(); err != nil {
		return 0, 0, nil, err
	}
	var header []byte
	for b := []byte{1}; b[0] != 0; header = append(header, b[0]) {
		if _, err = io.ReadFull(o.zip, b); err != nil || len(header) > 32 {
			return 0, 0, nil, damaged(err)
		}
	}
	word, length, _ := strings.Cut(string(header[:len(header)-1]), " ")
	kind, err = plumbing.ParseObjectType(word)
	if err == nil {
		size, err = strconv.ParseInt(length, 10, 64)
	}
	if err != nil {
		return 0, 0, nil, damaged(err)
	}
	return kind, size, f.Close, nil
}

func damaged(err error) error {
	if err == nil {
		return errDamaged
	}
	return fmt.Errorf("%w: %w", errDamaged, err)
}

// unzip begins to inflate what o.in stands at.
func (o *objects) unzip() error {
	var err error
	if o.zip == nil {
		o.zip, err = zlib.NewReader(o.in)
	} else {
		err = o.zip.(zlib.Resetter).Reset(o.in, nil)
	}
	if err != nil {
		o.zip = nil
		return damaged(err)
	}
	return nil
}

// inflate reads so many bytes out of o.zip, which must hold no more.
func (o *objects) inflate(size int64) ([]byte, error) {
	switch {
	case size < 0:
		return nil, errDamaged
	case size > maxObject:
		return nil, errLarge
	}
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(o.zip, size+1))
	if err != nil || n != size {
		return nil, damaged(err)
	}
	return b.Bytes(), nil
}

// packed reads an object out of a pack: its base, and what each delta makes of it.
func (o *objects) packed(p *pack, offset int64) (content, error) {
	var deltas [][]byte
	var places []base
	var made content
	total := 0
	for {
		if known, ok := o.bases[base{p, offset}]; ok {
			made = known
			break
		}
		e, err := o.entry(p, offset)
		if err == nil {
			err = o.unzip()
		}
		var data []byte
		if err == nil {
			data, err = o.inflate(e.size)
		}
		if err != nil {
			return content{}, err
		}
		if !e.kind.IsDelta() {
			made = content{e.kind, data}
			o.keep(base{p, offset}, made, len(deltas) > 0)
			break
		}
		if total += len(data); total > maxObject {
			return content{}, errLarge
		}
		if len(deltas) == maxDepth {
			return content{}, errDamaged
		}
		deltas, places = append(deltas, data), append(places, base{p, offset})
		offset = e.base
	}
	for i := len(deltas) - 1; i >= 0; i-- {
		_, n := binary.Uvarint(deltas[i]) // the size of the base, which patching checks
		if n <= 0 {
			return content{}, errDamaged
		}
		if size, n := binary.Uvarint(deltas[i][n:]); n <= 0 || size > maxObject {
			return content{}, errLarge
		}
		data, err := packfile.PatchDelta(made.data, deltas[i])
		if err != nil {
			return content{}, damaged(err)
		}
		made.data = data
		o.keep(places[i], made, i > 0)
	}
	return made, nil
}

// keep remembers an object that others are made of.
func (o *objects) keep(at base, c content, isBase bool) {
	if !isBase || len(c.data) > maxBases/8 {
		return
	}
	if o.held += len(c.data); o.held > maxBases {
		clear(o.bases)
		o.held = len(c.data)
	}
	o.bases[at] = c
}
