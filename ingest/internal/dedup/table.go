package dedup

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

// A file is a header page, followed by pages of slots. A slot has the identity (12 bytes), a
// checksum of the rest, the version, the hash and the mapping revision; it is all zero if free.
// Numbers are little-endian.
const (
	magic     = "musterv2"
	slotSize  = 36
	pageSlots = pageSize / slotSize
	pageSize  = 1024
	idSize    = 12
	// headerSize is the size of the used part of the header page: magic, the number of pages, the
	// number of entries, a checksum.
	headerSize = 28
	firstPages = 3
)

// id is the prefix of an identity's SHA-256. Collisions cannot be constructed in practice.
type id [idSize]byte

// State is the last published state of an identity.
type State struct {
	Version  record.Version
	Revision uint32
	// Hash is the content hash. A deletion has the greatest hash (record.Record.Hash).
	Hash uint64
}

// Compare orders states of one identity by version, revision, deletion and content hash
// (schemas/MAPPING.md, "Current version").
func (s State) Compare(o State) int {
	return cmp.Or(cmp.Compare(s.Version, o.Version), cmp.Compare(s.Revision, o.Revision), cmp.Compare(s.Hash, o.Hash))
}

// table is one memory-mapped file.
type table struct {
	file  *os.File
	data  []byte
	pages uint64
	used  uint64
}

// mapTable maps a file that has a table. ok is false, and the table nil, for a file with an invalid
// header or missing pages, which counts as empty.
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

// createTable writes an empty table with the given number of pages to a file and maps it. Every
// page is written: a mapped page without disk space would fault.
func createTable(file *os.File, pages uint64) (*table, error) {
	if err := file.Truncate(0); err != nil {
		return nil, err
	}
	zero := make([]byte, 256*pageSize)
	size := int64(pages+1) * pageSize //nolint:gosec // far below the maximum file size
	for at := int64(0); at < size; at += int64(len(zero)) {
		if _, err := file.WriteAt(zero[:min(int64(len(zero)), size-at)], at); err != nil {
			return nil, err
		}
	}
	t := &table{pages: pages}
	if _, err := file.WriteAt(t.header(), 0); err != nil {
		return nil, err
	}
	t, ok, err := mapTable(file, true)
	if err == nil && !ok {
		err = fmt.Errorf("%s: changed during creation", file.Name())
	}
	return t, err
}

// unmap unmaps the memory. The file stays open.
func (t *table) unmap() error {
	data := t.data
	t.data = nil
	return syscall.Munmap(data)
}

// readHeader reads the header and reports whether it is valid.
func (t *table) readHeader() bool {
	h := t.data[:headerSize]
	if string(h[:8]) != magic ||
		crc32.Checksum(h[:24], crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(h[24:]) {
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

// homePage returns the page where the search for an identity starts. Pages are in identity order,
// whatever their number, so that growing reads and writes sequentially.
func (t *table) homePage(i id) uint64 {
	hi, _ := bits.Mul64(binary.BigEndian.Uint64(i[:8]), t.pages)
	return hi
}

// find returns the slot of an identity, or the free slot that it would take. The slot is nil if the
// table is full.
func (t *table) find(i id) (slot []byte, found bool) {
	first, second := binary.LittleEndian.Uint64(i[:]), binary.LittleEndian.Uint32(i[8:])
	n := t.homePage(i)
	for range t.pages {
		p := t.data[(n+1)*pageSize:][:pageSize]
		for at := 0; at+slotSize <= pageSize; at += slotSize {
			s := p[at : at+slotSize : at+slotSize]
			if binary.LittleEndian.Uint64(s) == first && binary.LittleEndian.Uint32(s[8:]) == second {
				// A partially written entry is overwritten.
				return s, isValid(s)
			}
			if binary.LittleEndian.Uint32(s[idSize:]) == 0 {
				return s, false
			}
		}
		n = (n + 1) % t.pages
	}
	return nil, false
}

// isValid reports whether a slot has a complete entry.
func isValid(s []byte) bool { return binary.LittleEndian.Uint32(s[idSize:]) == checksum(s) }

// checksum returns the checksum of an entry. It is never 0, which marks a free slot.
func checksum(s []byte) uint32 {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	return max(crc32.Update(crc32.Checksum(s[:idSize], castagnoli), castagnoli, s[idSize+4:]), 1)
}

func decodeEntry(s []byte) State {
	return State{
		Version:  record.Version(binary.LittleEndian.Uint64(s[16:])), //nolint:gosec // as written by put
		Hash:     binary.LittleEndian.Uint64(s[24:]),
		Revision: binary.LittleEndian.Uint32(s[32:]),
	}
}

// put writes a state.
func (t *table) put(i id, state State) error {
	s, found := t.find(i)
	if s == nil {
		return errors.New("table full")
	}
	var entry [slotSize]byte
	copy(entry[:], i[:])
	binary.LittleEndian.PutUint64(entry[16:], uint64(state.Version)) //nolint:gosec // converted back by decodeEntry
	binary.LittleEndian.PutUint64(entry[24:], state.Hash)
	binary.LittleEndian.PutUint32(entry[32:], state.Revision)
	binary.LittleEndian.PutUint32(entry[idSize:], checksum(entry[:]))
	copy(s, entry[:])
	if !found {
		t.used++
		copy(t.data, t.header())
	}
	return nil
}

// growThreshold returns the number of entries at which a table of the given number of pages grows:
// three quarters of its slots.
func growThreshold(pages uint64) uint64 { return pages * pageSlots / 4 * 3 }

// copyTo copies every entry to another table. Both are visited in order.
func (t *table) copyTo(to *table) error {
	for n := range t.pages {
		page := t.data[(n+1)*pageSize:][:pageSize]
		for at := 0; at+slotSize <= pageSize; at += slotSize {
			s := page[at:][:slotSize]
			if !isValid(s) {
				continue
			}
			i, state := id(s[:idSize]), decodeEntry(s)
			// A torn page may have left an entry twice: keep the newer one.
			if other, found := to.find(i); found && state.Compare(decodeEntry(other)) <= 0 {
				continue
			}
			if err := to.put(i, state); err != nil {
				return err
			}
		}
	}
	return nil
}

// catchFaults runs code that accesses mapped memory. A page that the disk cannot read or write
// causes a memory fault, which is returned as an error.
func catchFaults(op string, do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		fault, ok := r.(interface{ Addr() uintptr })
		if !ok {
			// Not a memory fault.
			panic(r)
		}
		err = fmt.Errorf("%s: disk error at memory address %#x", op, fault.Addr())
	}()
	if err = do(); err != nil {
		err = fmt.Errorf("%s: %w", op, err)
	}
	return err
}
