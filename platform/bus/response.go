package bus

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxResponseBytes is the largest fetch response that is read. Brokers return at least one record batch, whatever its
// size.
const maxResponseBytes = 256 << 20

// maxReusedBufferBytes is the largest response buffer that is reused. There is one for each partition.
const maxReusedBufferBytes = 256 << 10

// fetchID is the correlation ID of all fetches: a connection carries one request at a time, and is closed after an
// error.
const fetchID = 1

// fetchRequest is a fetch whose response this package decodes. kafka-go's decoder trusts the sizes in record batches:
// a few bytes can crash the process or exhaust its memory, in a goroutine of the connection.
type fetchRequest struct {
	fetch.Request
	clientID string
	buffer   []byte // reused for the response
	version  int16
}

func clientID(c *kafka.Client) string {
	if t, ok := c.Transport.(*kafka.Transport); ok {
		return t.ClientID
	}
	return ""
}

// Required implements [protocol.RawExchanger].
func (r *fetchRequest) Required(versions map[protocol.ApiKey]int16) bool {
	r.version = versions[protocol.Fetch]
	return true
}

// RawExchange implements [protocol.RawExchanger].
func (r *fetchRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if err := protocol.WriteRequest(rw, r.version, fetchID, r.clientID, &r.Request); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(rw, head[:]); err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	size := binary.BigEndian.Uint32(head[:]) - 4
	if size > maxResponseBytes { // also if the size is below 4
		return nil, fmt.Errorf("response of %d bytes is too large", size)
	}
	if id := binary.BigEndian.Uint32(head[4:]); id != fetchID {
		return nil, fmt.Errorf("response has correlation ID %d, expected %d", id, fetchID)
	}
	res := &fetchResponse{buffer: r.buffer}
	if cap(res.buffer) < int(size) {
		res.buffer = make([]byte, size)
	}
	body := res.buffer[:size]
	if _, err := io.ReadFull(rw, body); err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	res.Version = r.version
	if err := res.UnsafeReadFrom(body); err != nil {
		return nil, fmt.Errorf("decode the response: %w", err)
	}
	return res, nil
}

// fetchResponse is a fetch response with undecoded record batches.
type fetchResponse struct {
	kmsg.FetchResponse
	buffer []byte // backs the response
}

// ApiKey implements [protocol.Message].
func (*fetchResponse) ApiKey() protocol.ApiKey { return protocol.Fetch }

var _ protocol.RawExchanger = (*fetchRequest)(nil)
