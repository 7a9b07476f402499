package idempotency

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Memory is a [Store] for one replica.
type Memory struct {
	now   func() time.Time
	bytes int // bound

	mu    sync.Mutex
	items map[string]*list.Element // of *item
	order *list.List               // oldest first
	held  int
}

type item struct {
	name, fingerprint, owner string
	value                    []byte // nil: running
	until                    time.Time
}

// itemBytes is what an item takes beside its value.
const itemBytes = 512

func (i *item) size() int { return itemBytes + len(i.value) }

// NewMemory returns a store that holds so many bytes.
func NewMemory(now func() time.Time, bytes int) *Memory {
	return &Memory{now: now, bytes: bytes, items: make(map[string]*list.Element), order: list.New()}
}

// Begin implements [Store].
func (m *Memory) Begin(_ context.Context, name, fingerprint, owner string, lease time.Duration) (State, []byte, error) {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(now)
	if e := m.items[name]; e != nil {
		i := e.Value.(*item)
		switch {
		case !now.Before(i.until):
			m.remove(e)
		case i.fingerprint != fingerprint:
			return Mismatch, nil, nil
		case i.value == nil:
			return Running, nil, nil
		default:
			return Stored, i.value, nil
		}
	}
	i := &item{name: name, fingerprint: fingerprint, owner: owner, until: now.Add(lease)}
	m.items[name] = m.order.PushBack(i)
	m.held += i.size()
	return New, nil, nil
}

// Complete implements [Store].
func (m *Memory) Complete(_ context.Context, name, owner string, value []byte, kept time.Duration) error {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.items[name]
	if e == nil || e.Value.(*item).owner != owner {
		return nil
	}
	i := e.Value.(*item)
	m.held -= i.size()
	i.value, i.until = value, now.Add(kept)
	m.held += i.size()
	m.order.MoveToBack(e)
	return nil
}

// Forget implements [Store].
func (m *Memory) Forget(_ context.Context, name, owner string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.items[name]; e != nil && e.Value.(*item).owner == owner {
		m.remove(e)
	}
	return nil
}

// sweep removes what is over, and the oldest while there is too much.
func (m *Memory) sweep(now time.Time) {
	for e := m.order.Front(); e != nil; e = m.order.Front() {
		if i := e.Value.(*item); now.Before(i.until) && m.held <= m.bytes {
			return
		}
		m.remove(e)
	}
}

func (m *Memory) remove(e *list.Element) {
	i := e.Value.(*item)
	m.order.Remove(e)
	delete(m.items, i.name)
	m.held -= i.size()
}
