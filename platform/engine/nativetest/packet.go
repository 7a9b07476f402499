package nativetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"muster/platform/engine/internal/native"
)

// revision is the protocol revision that the server announces: settings are strings (54429), and there is neither a
// cluster secret (54441) nor any later feature.
const revision = 54440

// Packet types of clients and servers (ClickHouse, Core/Protocol.h).
const (
	clientHello        = 0
	clientQuery        = 1
	clientData         = 2
	clientCancel       = 3
	clientPing         = 4
	clientTablesStatus = 5
	clientScalar       = 7

	serverHello        = 0
	serverData         = 1
	serverException    = 2
	serverPong         = 4
	serverEndOfStream  = 5
	serverTablesStatus = 9
)

// cursor reads the received data. After a read past its end, short stays true.
type cursor struct {
	data  []byte
	pos   int
	short bool
}

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.data[c.pos:])
	if n <= 0 {
		c.short, c.pos = true, len(c.data)
		return 0
	}
	c.pos += n
	return v
}

func (c *cursor) bytes(n uint64) []byte {
	if n > uint64(len(c.data)-c.pos) {
		c.short, c.pos = true, len(c.data)
		return nil
	}
	c.pos += int(n)
	return c.data[c.pos-int(n) : c.pos]
}

func (c *cursor) string() string { return string(c.bytes(c.uvarint())) }

func (c *cursor) byte() byte {
	if b := c.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

// query is a query of an initiator.
type query struct {
	id       string
	text     string
	stage    uint64
	compress bool
	settings map[string]string
	states   bool // the result has states of aggregate functions
}

// isForwarded reports whether a setting of the initiator is forwarded to the engine.
func isForwarded(name string) bool {
	return strings.HasPrefix(name, "insert_") || name == "async_insert" ||
		strings.HasPrefix(name, "max_") && name != "max_distributed_depth"
}

// Interfaces of the initiator's client, which determine the client info.
const (
	interfaceTCP  = 1
	interfaceHTTP = 2
)

func (c *cursor) query() query {
	q := query{id: c.string(), settings: make(map[string]string)}
	if kind := c.byte(); kind != 0 {
		c.string() // initial user
		c.string() // initial query id
		c.string() // initial address
		switch c.byte() {
		case interfaceTCP:
			c.string() // OS user
			c.string() // host
			c.string() // client name
			c.uvarint()
			c.uvarint()
			c.uvarint()
			c.string() // quota key
			c.uvarint()
		case interfaceHTTP:
			c.byte()   // method
			c.string() // user agent
			c.string() // quota key
		default:
			c.string() // quota key
		}
	}
	for name := c.string(); name != ""; name = c.string() {
		c.uvarint() // flags
		if value := c.string(); isForwarded(name) {
			q.settings[name] = value
		}
	}
	q.stage = c.uvarint()
	q.compress = c.uvarint() != 0
	q.text = c.string()
	return q
}

// block is a block of rows in revision 0.
type block struct {
	native.Block
	table  string // name of an external table or of a scalar
	scalar bool
	data   []byte
}

// block reads a block after the packet type.
func (c *cursor) block() (block, error) {
	b := block{table: c.string()}
	for field := c.uvarint(); field != 0; field = c.uvarint() {
		switch field {
		case 1: // is_overflows
			c.byte()
		case 2: // bucket_num
			c.bytes(4)
		default:
			return block{}, fmt.Errorf("nativetest: field %d of a block", field)
		}
	}
	if c.short {
		return block{}, nil
	}
	var err error
	b.Block, err = native.ReadBlock(c.data[c.pos:])
	if errors.Is(err, native.ErrTruncated) {
		c.short = true
		return block{}, nil
	}
	if err != nil {
		return block{}, fmt.Errorf("nativetest: read a block: %w", err)
	}
	b.data = append([]byte(nil), c.bytes(uint64(b.Length))...)
	return b, nil
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendHello(dst []byte) []byte {
	dst = appendString(append(dst, serverHello), "ClickHouse")
	for _, v := range []uint64{26, 7, revision} {
		dst = binary.AppendUvarint(dst, v)
	}
	dst = appendString(appendString(dst, "UTC"), "nativetest")
	return binary.AppendUvarint(dst, 1) // patch
}

// appendData appends each block of revision 0 as a packet, with new names for the columns in names.
func appendData(dst, blocks []byte, names map[string]string) ([]byte, error) {
	for len(blocks) > 0 {
		b, err := native.ReadBlock(blocks)
		if err != nil {
			return dst, fmt.Errorf("nativetest: the engine's response: %w", err)
		}
		dst = append(dst, serverData, 0) // empty table name
		if dst, err = native.AppendRenamed(dst, blocks[:b.Length], revision, names); err != nil {
			return dst, fmt.Errorf("nativetest: the engine's response: %w", err)
		}
		blocks = blocks[b.Length:]
	}
	return dst, nil
}

func appendException(dst []byte, code int32, message string) []byte {
	dst = append(dst, serverException)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(code))
	dst = appendString(appendString(appendString(dst, "DB::Exception"), message), "")
	return append(dst, 0) // no nested exception
}
