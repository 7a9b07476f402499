package versions

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
	"os"
	"runtime/debug"
	"syscall"

	"muster/schemas/record"
)

// The form of a file: a header page, then pages of slots. A slot is the identity
// (12 bytes), a checksum of the rest, the version, the hash and the mapping revision;
// all zero when free. Numbers are little-endian. Files of magicV1 have slots without a
// revision, which then is 0; they are rewritten when a writer opens them.
const (
	magic     = "musterv2"
	magicV1   = "musterv1"
	slotSize  = 36
	slotV1    = 32
	pageSlots = pageSize / slotSize
	pageSize  = 1024
	idSize    = 12
	// headerSize is that of what is used of the header page: magic, the number of
	// pages, the number of entries, a checksum.
	headerSize = 28
	firstPages = 3
)

// id stands for an identity. It is the beginning of a SHA-256: nobody can choose
// two identities that share one.
type id [idSize]byte

// State is what is known of an identity.
type State struct {
	Version  record.Version
	Revision uint32
	// Hash is that of the content. A deletion has the greatest (record.Record.Hash).
	Hash uint64
}

// Compare orders states of one identity by version, revision, deletion and content hash
// (schemas/MAPPING.md, "Current version").
func (s State) Compare(o State) int {
	return cmp.Or(cmp.Compare(s.Version, o.Version), cmp.Compare(s.Revision, o.Revision), cmp.Compare(s.Hash, o.Hash))
}

// table is one file, mapped into memory.
type table struct {
	file  *os.File
	data  []byte
	pages uint64
	used  uint64
	slot  int // bytes of a slot
}

// mapTable maps a file that holds a table. ok is false, and the table nil, for a
// file without a sound header or with pages missing, which counts as empty.
func mapTable(file *os.File, write bool) (t *table, ok bool, err error) {
	info, err := file.Stat()
	if err != nil {
		return nil, false, err
	}
	if info.Size() < 2*pageSize {
		return nil, false, nil
	}
	protection := syscall.PROT_READ
	if write {
		protection |= syscall.PROT_WRITE
	}
	data, err := syscall.Mmap(int(file.Fd()), 0, int(info.Size()), protection, syscall.MAP_SHARED)
	if err != nil {
		return nil, false, fmt.Errorf("map %s: %w", file.Name(), err)
	}
	t = &table{file: file, data: data}
	if !t.readHeader() {
		return nil, false, syscall.Munmap(data)
	}
	return t, true, nil
}

// createTable makes a file an empty table of so many pages and maps it. Every page
// is written: a mapped page that the disk has no room for would be a fault.
func createTable(file *os.File, pages uint64) (*table, error) {
	if err := file.Truncate(0); err != nil {
		return nil, err
	}
	zero := make([]byte, 256*pageSize)
	for at, size := int64(0), int64(pages+1)*pageSize; at < size; at += int64(len(zero)) { //nolint:gosec // far below the limit of files
		if _, err := file.WriteAt(zero[:min(int64(len(zero)), size-at)], at); err != nil {
			return nil, err
		}
	}
	t := &table{pages: pages, slot: slotSize}
	if _, err := file.WriteAt(t.header(), 0); err != nil {
		return nil, err
	}
	t, ok, err := mapTable(file, true)
	if err == nil && !ok {
		err = fmt.Errorf("%s: changed while it was made", file.Name())
	}
	return t, err
}

// unmap lets the memory go; the file stays open.
func (t *table) unmap() error {
	data := t.data
	t.data = nil
	return syscall.Munmap(data)
}

// readHeader reads how large the table is.
func (t *table) readHeader() bool {
	h := t.data[:headerSize]
	switch string(h[:8]) {
	case magic:
		t.slot = slotSize
	case magicV1:
		t.slot = slotV1
	default:
		return false
	}
	if crc32.Checksum(h[:24], crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(h[24:]) {
		return false
	}
	t.pages, t.used = binary.LittleEndian.Uint64(h[8:]), binary.LittleEndian.Uint64(h[16:])
	return t.pages > 0 && t.pages < uint64(len(t.data))/pageSize
}

func (t *table) header() []byte {
	h := make([]byte, headerSize)
	copy(h, magic)
	binary.LittleEndian.PutUint64(h[8:], t.pages)
	binary.LittleEndian.PutUint64(h[16:], t.used)
	binary.LittleEndian.PutUint32(h[24:], crc32.Checksum(h[:24], crc32.MakeTable(crc32.Castagnoli)))
	return h
}

// home is the page that an identity is looked for first. Its order is that of the
// identities, whatever the number of pages, so that growing reads and writes in
// sequence.
func (t *table) home(i id) uint64 {
	hi, _ := bits.Mul64(binary.BigEndian.Uint64(i[:8]), t.pages)
	return hi
}

// find returns the slot of an identity, or the slot that it would take; nil when
// there is none left.
func (t *table) find(i id) (slot []byte, found bool) {
	first, second := binary.LittleEndian.Uint64(i[:]), binary.LittleEndian.Uint32(i[8:])
	n := t.home(i)
	for range t.pages {
		p := t.data[(n+1)*pageSize:][:pageSize]
		for at := 0; at+t.slot <= pageSize; at += t.slot {
			s := p[at : at+t.slot : at+t.slot]
			if binary.LittleEndian.Uint64(s) == first && binary.LittleEndian.Uint32(s[8:]) == second {
				return s, sound(s) // one that is half written is written again
			}
			if binary.LittleEndian.Uint32(s[idSize:]) == 0 {
				return s, false
			}
		}
		n = (n + 1) % t.pages
	}
	return nil, false
}

// sound tells an entry from one that was half written, and from none.
func sound(s []byte) bool { return binary.LittleEndian.Uint32(s[idSize:]) == check(s) }

// check is never what a free slot has, which is zero.
func check(s []byte) uint32 {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	return max(crc32.Update(crc32.Checksum(s[:idSize], castagnoli), castagnoli, s[idSize+4:]), 1)
}

func get(s []byte) State {
	state := State{
		Version: record.Version(binary.LittleEndian.Uint64(s[16:])), //nolint:gosec // as it was put
		Hash:    binary.LittleEndian.Uint64(s[24:]),
	}
	if len(s) == slotSize {
		state.Revision = binary.LittleEndian.Uint32(s[32:])
	}
	return state
}

// put writes a state.
func (t *table) put(i id, state State) error {
	s, found := t.find(i)
	if s == nil {
		return errors.New("the table is full")
	}
	var entry [slotSize]byte
	copy(entry[:], i[:])
	binary.LittleEndian.PutUint64(entry[16:], uint64(state.Version)) //nolint:gosec // read back as it was
	binary.LittleEndian.PutUint64(entry[24:], state.Hash)
	binary.LittleEndian.PutUint32(entry[32:], state.Revision)
	binary.LittleEndian.PutUint32(entry[idSize:], check(entry[:]))
	copy(s, entry[:])
	if !found {
		t.used++
		copy(t.data, t.header())
	}
	return nil
}

// limit is the number of entries from which on a table of so many pages grows:
// three quarters of its slots.
func limit(pages uint64) uint64 { return pages * pageSlots / 4 * 3 }

// copyTo puts every entry into another table. Both are visited in order.
func (t *table) copyTo(to *table) error {
	for n := range t.pages {
		page := t.data[(n+1)*pageSize:][:pageSize]
		for at := 0; at+t.slot <= pageSize; at += t.slot {
			s := page[at:][:t.slot]
			if !sound(s) {
				continue
			}
			i, state := id(s[:idSize]), get(s)
			// A torn page may have left an entry twice: the newer one is kept.
			if other, found := to.find(i); found && state.Compare(get(other)) <= 0 {
				continue
			}
			if err := to.put(i, state); err != nil {
				return err
			}
		}
	}
	return nil
}

// guarded runs what reads or writes mapped memory. A page that the disk cannot
// give or take is a fault there, which becomes an error.
func guarded(op string, do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		fault, ok := r.(interface{ Addr() uintptr })
		if !ok {
			panic(r) // not what this guards against
		}
		err = fmt.Errorf("%s: the disk failed under memory address %#x", op, fault.Addr())
	}()
	if err = do(); err != nil {
		err = fmt.Errorf("%s: %w", op, err)
	}
	return err
}
