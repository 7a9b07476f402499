package delivery

import (
	"time"

	"muster/schemas/event"
)

// order is an operator's, to make a delivery again: the round, and where its task, with
// the body, stands. The body is read from there, so that an order that is kept holds none.
type order struct {
	round  string
	offset int64
}

// anew begins a delivery that waits from its first attempt on, in the order's round. Its
// old task may leave the log before the new schedule ends, so the new one takes its
// place.
func (m *Machine) anew(it *item, o order, now time.Time) {
	m.unwait(it)
	it.task = nil
	if it.unfinished {
		it.unfinished = false
		m.finish(it.state.Offset)
	}
	s := &it.state
	s.Round, s.Offset, s.Attempts, s.Error, s.FirstFailure = o.round, o.offset, 0, "", time.Time{}
	s.Status, s.NextAt, s.CreatedAt, s.UpdatedAt = event.WebhookPending, now, now, now
	m.put(it)
	m.finish(o.offset)
	m.schedule(it, now)
}

// keep keeps an order for a delivery whose call runs. The last one counts, and is not
// finished before it is obeyed: a process that is killed takes it again.
func (m *Machine) keep(it *item, o order) {
	if it.again != nil {
		m.finish(it.again.offset)
	}
	it.again = &o
}

// obey begins a delivery anew whose call has ended, whatever came of it.
func (m *Machine) obey(it *item, now time.Time) {
	o := *it.again
	it.again = nil
	if m.items[it.key] != it { // it has ended
		m.finished.remove(it.key)
		s := it.state
		it = &item{key: it.key, state: s, endpoint: m.endpoint(s.EndpointID, s.OrganizationID, s.Address), index: -1}
		m.add(it)
	}
	m.anew(it, o, now)
}
