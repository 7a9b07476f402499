package postings

import "container/list"

// cache keeps what was read of parts and forgets what was used longest ago. Its owner locks.
type cache struct {
	max, size int
	entries   map[entryKey]*list.Element
	order     *list.List // of *entry, the last used in front
}

// entryKey is a part by its identity, and what was read of it.
type entryKey struct{ part, what string }

type entry struct {
	key   entryKey
	value sized
}

// sized is what is kept.
type sized interface{ bytes() int }

func newCache(most int) cache {
	return cache{max: most, entries: make(map[entryKey]*list.Element), order: list.New()}
}

func (c *cache) get(key entryKey) (sized, bool) {
	e, ok := c.entries[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*entry).value, true //nolint:forcetypeassert // nothing else is in it
}

func (c *cache) put(key entryKey, value sized) {
	if _, ok := c.entries[key]; ok {
		return // somebody else has read it
	}
	c.entries[key] = c.order.PushFront(&entry{key, value})
	for c.size += value.bytes() + len(key.what) + entryBytes; c.size > c.max && c.order.Len() > 0; {
		c.drop(c.order.Back())
	}
}

// entryBytes is about what an entry takes beside its value.
const entryBytes = 256

func (c *cache) drop(e *list.Element) {
	gone := c.order.Remove(e).(*entry) //nolint:forcetypeassert // nothing else is in it
	delete(c.entries, gone.key)
	c.size -= gone.value.bytes() + len(gone.key.what) + entryBytes
}

// retain drops what was read of parts that are gone.
func (c *cache) retain(parts []*part) {
	active := make(map[string]bool, len(parts))
	for _, p := range parts {
		active[p.identity] = true
	}
	for e := c.order.Back(); e != nil; {
		before := e.Prev()
		if !active[e.Value.(*entry).key.part] { //nolint:forcetypeassert // nothing else is in it
			c.drop(e)
		}
		e = before
	}
}
