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

// pool hands out connections that are already set up: one key (user, database,
// settings) has the same setup, so a request pays for it only when no
// connection of its key is idle.
//
// The number of connections in use is bounded; callers wait for a place.
type pool struct {
	lib       *chdb.Library
	args      []string // of every connection: storage path, engine options
	places    chan struct{}
	maxIdle   int
	nextID    atomic.Uint64
	queueWait time.Duration

	mu     sync.Mutex
	idle   map[string]*list.List // of *pooled, most recent in front
	lru    *list.List            // of *pooled, most recent in front
	closed bool

	root   sync.Mutex // guards keeper
	keeper *chdb.Conn // keeps the engine running and carries KILL
}

// pooled is a connection with its setup.
type pooled struct {
	*chdb.Conn
	id           string
	key          string
	then         []chdb.Param // set when the request's tables are filled
	inKey, inLRU *list.Element
}

// setup is what distinguishes connections.
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
		places: make(chan struct{}, maxInUse),
		idle:   make(map[string]*list.List), lru: list.New(),
	}, nil
}

// acquire waits for a place. Every acquire is followed by one releasePlace.
func (p *pool) acquire(ctx context.Context) error {
	select {
	case p.places <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(p.queueWait)
	defer timer.Stop()
	select {
	case p.places <- struct{}{}:
		return nil
	case <-timer.C:
		return errTooManyQueries.errorf("Too many simultaneous queries. Maximum: %d", cap(p.places))
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pool) releasePlace() { <-p.places }

// get takes an idle connection of this setup or makes one.
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

// explain finds the setting that a connection was refused for, because the
// library does not say.
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

// put returns a connection for the next request of its key.
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

// unlink takes a connection out of the idle lists; the mutex is held.
func (p *pool) unlink(c *pooled) {
	l := p.idle[c.key]
	l.Remove(c.inKey)
	if l.Len() == 0 {
		delete(p.idle, c.key)
	}
	p.lru.Remove(c.inLRU)
}

// kill stops the statement that runs on the connection. It returns at once;
// the statement ends with QUERY_WAS_CANCELLED.
func (p *pool) kill(id string) error {
	p.root.Lock()
	defer p.root.Unlock()
	return p.keeper.Exec("KILL QUERY WHERE endsWith(Settings['log_comment'], " + quoteString(id) + ") ASYNC")
}

// query runs a statement of the facade's own on the keeper.
func (p *pool) query(text string) (string, error) {
	p.root.Lock()
	defer p.root.Unlock()
	r, err := p.keeper.Query(text, "TabSeparated", nil)
	if err != nil {
		return "", err
	}
	defer r.Close()
	return string(r.Bytes()), nil
}

// close closes the idle connections and the keeper. No connection is in use.
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
	p.root.Lock()
	defer p.root.Unlock()
	p.keeper.Close()
}

func quoteString(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

func quoteIdentifier(s string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(s) + "`"
}
