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

// maxAnswerBytes is the largest answer to a fetch that is read. Brokers answer with
// one record batch at least, however large it is.
const maxAnswerBytes = 256 << 20

// keptAnswerBytes is the largest buffer of an answer that is kept for the next one:
// there is one for each partition.
const keptAnswerBytes = 256 << 10

// fetchID is the correlation id of fetches: a connection carries one request at a
// time, and is closed when one has failed.
const fetchID = 1

// fetchRequest is a fetch whose answer is read here. kafka-go's own reading believes
// what record batches say of themselves: a few bytes can end the process or take all
// of its memory, in a goroutine of the connection.
type fetchRequest struct {
	fetch.Request
	clientID string
	buffer   []byte // room for the answer
	version  int16
}

// clientID is what the client's other requests carry.
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
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	size := binary.BigEndian.Uint32(head[:]) - 4
	if size > maxAnswerBytes { // also: less than the id
		return nil, fmt.Errorf("an answer of %d bytes", size)
	}
	if id := binary.BigEndian.Uint32(head[4:]); id != fetchID {
		return nil, fmt.Errorf("the answer %d to the request %d", id, fetchID)
	}
	res := &fetchResponse{buffer: r.buffer}
	if cap(res.buffer) < int(size) {
		res.buffer = make([]byte, size)
	}
	body := res.buffer[:size]
	if _, err := io.ReadFull(rw, body); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	res.Version = r.version
	if err := res.UnsafeReadFrom(body); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return res, nil
}

// fetchResponse is an answer whose record batches are as they came.
type fetchResponse struct {
	kmsg.FetchResponse
	buffer []byte // that it points into
}

// ApiKey implements [protocol.Message].
func (*fetchResponse) ApiKey() protocol.ApiKey { return protocol.Fetch }

var _ protocol.RawExchanger = (*fetchRequest)(nil)
