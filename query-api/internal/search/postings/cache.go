package postings

import "container/list"

// cache is an LRU cache of data read from parts. Its owner locks.
type cache struct {
	max, size int
	entries   map[entryKey]*list.Element
	order     *list.List // of *entry, most recently used first
}

type entryKey struct {
	part, what string
	linked     string // the state of the linked accounts, if the data is of them
}

type entry struct {
	key   entryKey
	value sized
}

// sized is a cached value.
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
		// another query has read it
		return
	}
	c.entries[key] = c.order.PushFront(&entry{key, value})
	for c.size += value.bytes() + len(key.what) + entryBytes; c.size > c.max && c.order.Len() > 0; {
		c.drop(c.order.Back())
	}
}

// entryBytes is the approximate overhead of an entry.
const entryBytes = 256

func (c *cache) drop(e *list.Element) {
	removed := c.order.Remove(e).(*entry) //nolint:forcetypeassert // nothing else is in it
	delete(c.entries, removed.key)
	c.size -= removed.value.bytes() + len(removed.key.what) + entryBytes
}

// retain drops the data of parts that no longer exist, and of former states of the linked accounts.
func (c *cache) retain(parts []*part, linked string) {
	active := make(map[string]bool, len(parts))
	for _, p := range parts {
		active[p.identity] = true
	}
	for e := c.order.Back(); e != nil; {
		before := e.Prev()
		key := e.Value.(*entry).key //nolint:forcetypeassert // nothing else is in it
		if !active[key.part] || key.linked != "" && key.linked != linked {
			c.drop(e)
		}
		e = before
	}
}
