package facade

import (
	"container/list"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"muster/platform/engine/internal/chdb"
)

// pool is a pool of connections by setup (user, database, settings), so that a request sets up a connection only if
// none with its setup is idle. It limits the connections in use.
type pool struct {
	lib       *chdb.Library
	args      []string // of every connection: storage path, engine options
	slots     chan struct{}
	maxIdle   int
	nextID    atomic.Uint64
	queueWait time.Duration

	mu     sync.Mutex
	idle   map[string]*list.List // of *pooled by key, most recent first
	lru    *list.List            // of *pooled, most recent first
	closed bool

	keeperMu sync.Mutex
	keeper   *chdb.Conn // keeps the engine running, and runs KILL and queries of the facade
}

// pooled is a connection with its setup.
type pooled struct {
	*chdb.Conn
	id           string
	key          string
	afterFill    []chdb.Param // settings to apply after the external tables are filled
	inKey, inLRU *list.Element
}

// setup identifies interchangeable connections.
type setup struct {
	user     string
	database string
	settings []chdb.Param // sorted by name
}

func (s setup) key() string {
	var b strings.Builder
	b.WriteString(s.user)
	b.WriteByte(0)
	b.WriteString(s.database)
	for _, p := range s.settings {
		b.WriteByte(0)
		b.WriteString(p.Name)
		b.WriteByte('=')
		b.WriteString(p.Value)
	}
	return b.String()
}

func newPool(lib *chdb.Library, args []string, maxInUse, maxIdle int, queueWait time.Duration) (*pool, error) {
	keeper, err := lib.Connect(args...)
	if err != nil {
		return nil, err
	}
	return &pool{
		lib: lib, args: args, keeper: keeper, maxIdle: maxIdle, queueWait: queueWait,
		slots: make(chan struct{}, maxInUse),
		idle:  make(map[string]*list.List), lru: list.New(),
	}, nil
}

// acquire waits for a slot. Every successful acquire is followed by one release.
func (p *pool) acquire(ctx context.Context) error {
	select {
	case p.slots <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(p.queueWait)
	defer timer.Stop()
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-timer.C:
		return errTooManyQueries.errorf("Too many simultaneous queries. Maximum: %d", cap(p.slots))
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pool) release() { <-p.slots }

// get returns an idle connection with the setup, or a new one.
func (p *pool) get(s setup) (*pooled, error) {
	key := s.key()
	p.mu.Lock()
	if l := p.idle[key]; l != nil {
		c := l.Front().Value.(*pooled)
		p.unlink(c)
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	return p.open(s, key)
}

func (p *pool) open(s setup, key string) (*pooled, error) {
	c := &pooled{id: "muster/" + strconv.FormatUint(p.nextID.Add(1), 36), key: key}
	args := make([]string, 0, len(p.args)+len(s.settings)+2)
	args = append(args, p.args...)
	args = append(args, "--implicit_select=0")
	comment := c.id
	for _, set := range s.settings {
		if set.Name == settingLogComment {
			comment = set.Value + " " + c.id
			continue
		}
		args = append(args, "--"+set.Name+"="+set.Value)
	}
	args = append(args, "--"+settingLogComment+"="+comment)
	conn, err := p.lib.Connect(args...)
	if err != nil {
		return nil, p.explain(s, err)
	}
	c.Conn = conn
	if s.database != "" {
		if err := conn.Exec("USE " + quoteIdentifier(s.database)); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return c, nil
}

// explain returns the error of the setting that prevented a connection, because the library does not return it.
func (p *pool) explain(s setup, cause error) error {
	conn, err := p.lib.Connect(p.args...)
	if err != nil {
		return fmt.Errorf("open a connection: %w", err)
	}
	defer conn.Close()
	for _, set := range s.settings {
		if err := conn.Exec("SET " + set.Name + " = " + quoteString(set.Value)); err != nil {
			return err
		}
	}
	return cause
}

// put returns a connection to the pool.
func (p *pool) put(c *pooled) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		c.Close()
		return
	}
	l := p.idle[c.key]
	if l == nil {
		l = list.New()
		p.idle[c.key] = l
	}
	c.inKey, c.inLRU = l.PushFront(c), p.lru.PushFront(c)
	var evicted *pooled
	if p.lru.Len() > p.maxIdle {
		evicted = p.lru.Back().Value.(*pooled)
		p.unlink(evicted)
	}
	p.mu.Unlock()
	if evicted != nil {
		evicted.Close()
	}
}

// unlink removes a connection from the idle lists. The caller holds the mutex.
func (p *pool) unlink(c *pooled) {
	l := p.idle[c.key]
	l.Remove(c.inKey)
	if l.Len() == 0 {
		delete(p.idle, c.key)
	}
	p.lru.Remove(c.inLRU)
}

// kill kills the statement that runs on a connection, without waiting. The statement ends with QUERY_WAS_CANCELLED.
func (p *pool) kill(id string) error {
	p.keeperMu.Lock()
	defer p.keeperMu.Unlock()
	return p.keeper.Exec("KILL QUERY WHERE endsWith(Settings['log_comment'], " + quoteString(id) + ") ASYNC")
}

// query runs a query of the facade on the keeper.
func (p *pool) query(text string) (string, error) {
	p.keeperMu.Lock()
	defer p.keeperMu.Unlock()
	r, err := p.keeper.Query(text, "TabSeparated", nil)
	if err != nil {
		return "", err
	}
	defer r.Close()
	return string(r.Bytes()), nil
}

// close closes the idle connections and the keeper. No connection may be in use.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	var all []*pooled
	for e := p.lru.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*pooled))
	}
	p.idle, p.lru = make(map[string]*list.List), list.New()
	p.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
	p.keeperMu.Lock()
	defer p.keeperMu.Unlock()
	p.keeper.Close()
}

func quoteString(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

func quoteIdentifier(s string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(s) + "`"
}
