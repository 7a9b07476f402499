package nativetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
)

// Server serves the native protocol for one engine.
type Server struct {
	engine         string // address of its HTTP interface
	shard          int    // number of the shard, from 1
	user, password string
	listener       net.Listener
	client         *http.Client
	ctx            context.Context // ends with the server; parent of requests to the engine
	wg             sync.WaitGroup

	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	refused map[string]int // how many connections about a table are closed
}

// listen opens the port, so that a cluster can be defined before its engines are started.
func listen(tb testing.TB) *Server {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	s := &Server{
		listener: listener, ctx: ctx,
		client:  &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}},
		conns:   make(map[net.Conn]struct{}),
		refused: make(map[string]int),
	}
	tb.Cleanup(func() {
		cancel()
		s.close()
		s.wg.Wait()
		s.client.CloseIdleConnections()
	})
	return s
}

// serve serves for the engine whose HTTP interface has the address addr.
func (s *Server) serve(tb testing.TB, addr, user, password string) {
	s.engine, s.user, s.password = addr, user, password
	s.wg.Go(func() { s.accept(tb, s.listener) })
}

// port returns the port for initiators.
func (s *Server) port() int { return s.listener.Addr().(*net.TCPAddr).Port }

func (s *Server) close() {
	_ = s.listener.Close() // errors do not matter
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close() // as above
	}
}

// Stop closes the port and all connections: initiators cannot reach the engine.
func (s *Server) Stop() { s.close() }

// Resume opens the port again.
func (s *Server) Resume(tb testing.TB) {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", s.listener.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	s.listener = listener
	s.wg.Go(func() { s.accept(tb, listener) })
}

// Refuse closes the next connections on which an initiator is about to read a table.
func (s *Server) Refuse(table string, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[table] = times
}

// Refuses returns how many more connections are closed.
func (s *Server) Refuses(table string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused[table]
}

// refuses reports whether a connection about a table is to be closed.
func (s *Server) refuses(table string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused[table] == 0 {
		return false
	}
	s.refused[table]--
	return true
}

func (s *Server) accept(tb testing.TB, listener net.Listener) {
	for {
		c, err := listener.Accept()
		if err != nil {
			return // closed
		}
		s.mu.Lock()
		s.conns[c] = struct{}{}
		s.mu.Unlock()
		s.wg.Go(func() {
			defer func() {
				s.mu.Lock()
				delete(s.conns, c)
				s.mu.Unlock()
				_ = c.Close() // the initiator has closed it
			}()
			if err := (&conn{server: s, net: c}).serve(); s.ctx.Err() == nil && !errors.Is(err, net.ErrClosed) &&
				!errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
				tb.Errorf("nativetest: %v", err)
			}
		})
	}
}

// conn is a connection of an initiator.
type conn struct {
	server   *Server
	net      net.Conn
	buffer   []byte // received and not yet parsed
	database string
}

// read calls parse with the received data, and again with more data while that is short.
func (c *conn) read(parse func(*cursor) error) error {
	for size := 64 << 10; ; {
		cur := cursor{data: c.buffer}
		if len(c.buffer) > 0 {
			if err := parse(&cur); err != nil {
				return err
			}
			if !cur.short {
				c.buffer = c.buffer[cur.pos:]
				return nil
			}
			size = max(size, len(c.buffer))
		}
		chunk := make([]byte, size)
		n, err := c.net.Read(chunk)
		if err != nil {
			return err
		}
		c.buffer = append(c.buffer, chunk[:n]...)
	}
}

func (c *conn) packet() (n uint64, err error) {
	err = c.read(func(cur *cursor) error { n = cur.uvarint(); return nil })
	return n, err
}

func (c *conn) write(b []byte) error {
	_, err := c.net.Write(b)
	return err
}

// serve returns the error that ended the connection.
func (c *conn) serve() error {
	for {
		n, err := c.packet()
		if err != nil {
			return err
		}
		switch n {
		case clientHello:
			err = c.hello()
		case clientPing:
			err = c.write([]byte{serverPong})
		case clientCancel: // the query has ended
		case clientTablesStatus:
			err = c.tablesStatus()
		case clientQuery:
			err = c.query()
		default:
			err = fmt.Errorf("unexpected packet %d", n)
		}
		if err != nil {
			return err
		}
	}
}

func (c *conn) hello() error {
	err := c.read(func(cur *cursor) error {
		cur.string() // client name
		cur.uvarint()
		cur.uvarint()
		cur.uvarint()
		c.database = cur.string()
		user, password := cur.string(), cur.string()
		if !cur.short && (user != c.server.user || password != c.server.password) {
			return fmt.Errorf("initiator logs in as %q, with other credentials than the engine's", user)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.write(appendHello(nil))
}

// tablesStatus reports which of the tables exist, without delay.
func (c *conn) tablesStatus() error {
	var tables [][2]string
	if err := c.read(func(cur *cursor) error {
		tables = nil
		for range min(cur.uvarint(), 1000) {
			tables = append(tables, [2]string{cur.string(), cur.string()})
		}
		return nil
	}); err != nil {
		return err
	}
	var found [][2]string
	for _, t := range tables {
		if c.server.refuses(t[1]) {
			return io.EOF
		}
		response, _, err := c.execute("EXISTS TABLE "+quote(t[0])+"."+quote(t[1])+" FORMAT TSV", nil, nil)
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(response)) == "1" {
			found = append(found, t)
		}
	}
	out := binary.AppendUvarint([]byte{serverTablesStatus}, uint64(len(found)))
	for _, t := range found {
		out = append(appendString(appendString(out, t[0]), t[1]), 0) // not replicated
	}
	return c.write(out)
}

func (c *conn) query() error {
	var q query
	if err := c.read(func(cur *cursor) error { q = cur.query(); return nil }); err != nil {
		return err
	}
	if q.compress {
		return errors.New("initiator requests compression: its cluster needs <compression>false</compression>")
	}
	tables, err := c.blocks()
	if err != nil {
		return err
	}
	packets, err := c.run(q, tables)
	if e, ok := errors.AsType[*exception](err); ok {
		return c.write(appendException(nil, e.code, e.message))
	}
	if err != nil {
		return err
	}
	return c.write(append(packets, serverEndOfStream))
}

// run returns the response packets of a query.
func (c *conn) run(q query, tables []block) ([]byte, error) {
	if m := insertPattern.FindStringSubmatch(q.text); m != nil {
		return nil, c.insert(m[1], m[2], q.settings)
	}
	tables = q.withScalars(tables)
	// The initiator sends the number as a scalar, which the engine as a library does not support.
	q.text = strings.ReplaceAll(q.text, "shardNum()", fmt.Sprintf("toUInt32(%d)", c.server.shard))
	names, err := c.toStage(&q, tables)
	if err != nil {
		return nil, err
	}
	result, rows, err := c.execute(q.text, q.settings, tables)
	if err != nil {
		return nil, err
	}
	if q.states {
		return appendStates(nil, result, rows, &q)
	}
	return appendData(nil, result, names)
}

// insertPattern matches an INSERT of an initiator: table, and columns with parentheses.
var insertPattern = regexp.MustCompile(`(?s)^INSERT INTO (\S+) (\(.*\)) (?:VALUES|FORMAT \w+)\s*$`)

// insert sends the columns to the initiator and inserts the blocks that follow.
func (c *conn) insert(table, columns string, settings map[string]string) error {
	header, _, err := c.execute("SELECT "+strings.Trim(columns, "()")+" FROM "+table+" LIMIT 0", nil, nil)
	if err != nil {
		return err
	}
	packet, err := appendData(nil, header, nil)
	if err != nil {
		return err
	}
	if err := c.write(packet); err != nil {
		return err
	}
	blocks, err := c.blocks()
	if err != nil {
		return err
	}
	var rows bytes.Buffer
	for _, b := range blocks {
		rows.Write(b.data)
	}
	_, _, err = c.post("INSERT INTO "+table+" "+columns+" FORMAT Native", settings, &rows, "")
	return err
}

// blocks reads blocks up to the empty block at the end.
func (c *conn) blocks() (out []block, err error) {
	for {
		n, err := c.packet()
		if err != nil {
			return nil, err
		}
		if n != clientData && n != clientScalar {
			return nil, fmt.Errorf("packet %d of an initiator, expected data", n)
		}
		var b block
		if err := c.read(func(cur *cursor) (err error) { b, err = cur.block(); return err }); err != nil {
			return nil, err
		}
		switch {
		case n == clientScalar:
			b.scalar = true
			out = append(out, b)
		case len(b.Names) == 0:
			return out, nil
		default:
			out = append(out, b)
		}
	}
}

// exception is an error that is sent to the initiator.
type exception struct {
	code    int32
	message string
}

func (e *exception) Error() string { return e.message }

// execute runs a query on the engine. It returns the result, in Native of revision 0 unless the query has a FORMAT, and
// the number of rows.
func (c *conn) execute(
	text string, settings map[string]string, tables []block,
) (response []byte, rows uint64, err error) {
	if len(tables) == 0 {
		return c.post("", settings, strings.NewReader(text), "")
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	if err := form.WriteField("query", text); err != nil {
		return nil, 0, err
	}
	for _, name := range names(tables) {
		var structure []string
		var data []byte
		for _, t := range tables {
			if t.table != name {
				continue
			}
			structure, data = structure[:0], append(data, t.data...)
			for i := range t.Names {
				structure = append(structure, quote(t.Names[i])+" "+t.Types[i])
			}
		}
		fields := [][2]string{{name + "_format", "Native"}, {name + "_structure", strings.Join(structure, ", ")}}
		for _, field := range fields {
			if err := form.WriteField(field[0], field[1]); err != nil {
				return nil, 0, err
			}
		}
		part, err := form.CreateFormFile(name, name)
		if err != nil {
			return nil, 0, err
		}
		if _, err := part.Write(data); err != nil {
			return nil, 0, err
		}
	}
	if err := form.Close(); err != nil {
		return nil, 0, err
	}
	return c.post("", settings, &body, form.FormDataContentType())
}

// names returns the distinct names of the tables.
func names(tables []block) (out []string) {
	for _, t := range tables {
		if !slices.Contains(out, t.table) {
			out = append(out, t.table)
		}
	}
	return out
}

func (c *conn) post(
	statement string, settings map[string]string, body io.Reader, contentType string,
) (response []byte, rows uint64, err error) {
	values := url.Values{"default_format": {"Native"}, "wait_end_of_query": {"1"}}
	if statement != "" {
		values.Set("query", statement)
	}
	if c.database != "" {
		values.Set("database", c.database)
	}
	for name, value := range settings {
		values.Set(name, value)
	}
	address := "http://" + c.server.engine + "/?" + values.Encode()
	req, err := http.NewRequestWithContext(c.server.ctx, http.MethodPost, address, body)
	if err != nil {
		return nil, 0, err
	}
	req.SetBasicAuth(c.server.user, c.server.password)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.server.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	response, err = io.ReadAll(resp.Body)
	if err != nil {
		return nil, 0, err
	}
	if resp.StatusCode != http.StatusOK {
		code, _ := strconv.ParseInt(resp.Header.Get("X-ClickHouse-Exception-Code"), 10, 32)
		return nil, 0, &exception{int32(code), string(response)}
	}
	var summary struct {
		Rows string `json:"result_rows"`
	}
	if err := json.Unmarshal([]byte(resp.Header.Get("X-ClickHouse-Summary")), &summary); err != nil {
		return nil, 0, fmt.Errorf("nativetest: the engine's summary: %w", err)
	}
	rows, err = strconv.ParseUint(summary.Rows, 10, 64)
	return response, rows, err
}

func quote(name string) string {
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(name) + "`"
}
