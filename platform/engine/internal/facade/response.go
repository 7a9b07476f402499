package facade

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"muster/platform/engine/internal/chdb"
	"muster/platform/engine/internal/native"
)

// response writes a result. It converts Native to the client's revision, compresses, and delays the headers until
// there is data to send, so that an early exception determines the status.
type response struct {
	server  *Server
	w       http.ResponseWriter
	queryID string
	format  string
	stats   chdb.Stats

	started  time.Time
	deadline time.Time // by which the client must have read the response; zero: none
	revision uint64
	encoding string
	level    int
	framer   *framer
	encoder  encoder
	sent     bool
	tag      string
}

func (o *response) prepare(q *request, r *http.Request) {
	o.started = time.Now()
	o.revision = min(q.revision, native.MaxRevision)
	o.level = q.compressLevel
	if q.httpCompress {
		o.encoding = acceptedEncoding(r.Header.Get("Accept-Encoding"))
	}
	if q.compress {
		f, err := newFramer(q.codec, q.compressLevel)
		if err == nil {
			o.framer = f
		}
	}
}

func (o *response) setFormat(format string) { o.format = format }

// start sends the headers.
func (o *response) start(status int) error {
	o.sent = true
	h := o.w.Header()
	h.Set("X-ClickHouse-Server-Display-Name", o.server.info.displayName)
	h.Set("X-ClickHouse-Query-Id", o.queryID)
	h.Set("X-ClickHouse-Timezone", o.server.info.timezone)
	h.Set("X-ClickHouse-Summary", o.summary())
	if status == http.StatusOK {
		h.Set("X-ClickHouse-Format", o.format)
		h.Set("Content-Type", contentType(o.format))
		o.tag = rand.Text()[:16]
		h.Set("X-ClickHouse-Exception-Tag", o.tag)
	}
	if o.encoding != "" {
		h.Set("Content-Encoding", o.encoding)
		enc, err := newEncoder(o.w, o.encoding, o.level)
		if err != nil {
			return err
		}
		o.encoder = enc
	}
	o.w.WriteHeader(status)
	return nil
}

func (o *response) summary() string {
	return fmt.Sprintf(`{"read_rows":"%d","read_bytes":"%d","written_rows":"%d","written_bytes":"%d",`+
		`"total_rows_to_read":"0","result_rows":"%d","result_bytes":"%d","elapsed_ns":"%d"}`,
		o.stats.ReadRows, o.stats.ReadBytes, o.stats.WrittenRows, o.stats.WrittenBytes,
		o.stats.ResultRows, o.stats.ResultBytes, time.Since(o.started).Nanoseconds())
}

var scratch = sync.Pool{New: func() any { return new([]byte) }}

// transform calls use with the encoded bytes of a part of the result.
func (o *response) transform(data []byte, use func([]byte) error) error {
	if o.revision > 0 && isNative(o.format) && len(data) > 0 {
		buffer := scratch.Get().(*[]byte)
		defer scratch.Put(buffer)
		rewritten, err := native.AppendBlocks((*buffer)[:0], data, o.revision)
		*buffer = rewritten[:0]
		if err != nil {
			return errNotImplemented.errorf("%s", err)
		}
		data = rewritten
	}
	if o.framer != nil {
		framed, err := o.framer.frame(data)
		if err != nil {
			return err
		}
		data = framed
	}
	return use(data)
}

func (o *response) send(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	// A client that stops reading must not block the engine forever.
	deadline := time.Now().Add(transferTimeout)
	if !o.deadline.IsZero() && o.deadline.Before(deadline) {
		deadline = o.deadline
	}
	err := http.NewResponseController(o.w).SetWriteDeadline(deadline)
	if err != nil {
		return errClientGone
	}
	if o.encoder != nil {
		_, err = o.encoder.Write(data)
	} else {
		_, err = o.w.Write(data)
	}
	if err != nil {
		return errClientGone
	}
	return nil
}

// transferTimeout limits one read of a body and one write of a result, as ClickHouse's http_receive_timeout and
// http_send_timeout.
const transferTimeout = 180 * time.Second

var errClientGone = errors.New("client closed the connection")

// write sends a part of the result. More parts follow.
func (o *response) write(data []byte) error {
	return o.transform(data, func(data []byte) error {
		if !o.sent {
			if err := o.start(http.StatusOK); err != nil {
				return err
			}
		}
		return o.send(data)
	})
}

// finish sends the last part.
func (o *response) finish(data []byte) error {
	return o.transform(data, func(data []byte) error {
		if !o.sent {
			if o.encoding == "" {
				o.w.Header().Set("Content-Length", strconv.Itoa(len(data)))
			}
			if err := o.start(http.StatusOK); err != nil {
				return err
			}
		}
		if err := o.send(data); err != nil {
			return err
		}
		if o.encoder != nil && o.encoder.Close() != nil {
			return errClientGone
		}
		return nil
	})
}

// fail sends an exception. If a part of the result was sent, it appends the exception with a marker and aborts the
// connection, so that no client takes the result for complete.
func (o *response) fail(err error) {
	if errors.Is(err, errClientGone) {
		panic(http.ErrAbortHandler)
	}
	e := asException(err)
	text := e.Error() + " (version " + o.server.info.version + ")\n"
	if o.sent {
		message := fmt.Sprintf("\r\n__exception__\r\n%s\r\n%s%d %s\r\n__exception__\r\n", o.tag, text, len(text), o.tag)
		if o.send([]byte(message)) == nil {
			if o.encoder != nil {
				_ = o.encoder.Flush() // the connection is aborted anyway
			}
			_ = http.NewResponseController(o.w).Flush()
		}
		panic(http.ErrAbortHandler)
	}
	h := o.w.Header()
	h.Set("X-ClickHouse-Exception-Code", strconv.Itoa(e.Code))
	h.Set("Content-Type", "text/plain; charset=UTF-8")
	status := statusOf(e)
	if status == http.StatusUnauthorized || e.Name == errAuthenticationFailed.name {
		h.Set("WWW-Authenticate", `Basic realm="ClickHouse server HTTP API"`)
	}
	o.encoding = ""
	body := []byte(text)
	if o.framer != nil {
		if framed, err := o.framer.frame(body); err == nil {
			body = framed
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if o.start(status) == nil {
		_ = o.send(body) // fails if the client has disconnected
	}
}
