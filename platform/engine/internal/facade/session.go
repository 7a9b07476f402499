package facade

import (
	"strconv"
	"sync"
	"time"

	"muster/platform/engine/internal/chdb"
)

const (
	defaultSessionTimeout = 60 * time.Second
	maxSessionTimeout     = 3600 * time.Second
	maxSessions           = 256
)

// sessions holds connections by session ID. A session ends when it is not used for its timeout.
type sessions struct {
	mu     sync.Mutex
	byID   map[string]*session
	closed bool
}

type session struct {
	conn     *pooled
	database string
	applied  map[string]string
	busy     bool
	expire   *time.Timer
}

func newSessions() *sessions { return &sessions{byID: make(map[string]*session)} }

// sessionConnection returns the session's connection. Only one statement can use it at a time.
func (s *Server) sessionConnection(q *request, tables []externalTable) (*pooled, func(bool), error) {
	timeout := defaultSessionTimeout
	if v := q.values.Get("session_timeout"); v != "" {
		seconds, err := strconv.Atoi(v)
		if err != nil || seconds < 0 || time.Duration(seconds)*time.Second > maxSessionTimeout {
			return nil, nil, errInvalidSessionTimeout.errorf("Invalid session timeout '%s', the maximum is %d seconds",
				v, int(maxSessionTimeout.Seconds()))
		}
		timeout = time.Duration(seconds) * time.Second
	}
	id := q.user.Name + "\x00" + q.session
	sess, err := s.sessions.take(id, isTrue(q.values.Get("session_check")))
	if err != nil {
		return nil, nil, err
	}
	release := func(bool) { s.sessions.giveBack(id, sess, timeout, isTrue(q.values.Get("close_session"))) }
	if sess.conn == nil {
		conn, err := s.pool.open(setup{user: q.user.Name, database: q.setup.database}, "")
		if err != nil {
			s.sessions.drop(id)
			return nil, nil, err
		}
		sess.conn, sess.database = conn, q.setup.database
	}
	if err := sess.apply(q.setup); err != nil {
		release(false)
		return nil, nil, err
	}
	return sess.conn, func(bool) {
		for _, table := range tables {
			if !table.created { // the session may have another table of this name
				continue
			}
			if err := sess.conn.Exec("DROP TEMPORARY TABLE IF EXISTS " + quoteIdentifier(table.name)); err != nil {
				s.cfg.Logger.Warn("engine: drop an external table", "error", err)
			}
		}
		release(true)
	}, nil
}

// apply applies the database and settings of a request. They remain in effect for later requests of the session.
func (s *session) apply(want setup) error {
	if want.database != "" && want.database != s.database {
		if err := s.conn.Exec("USE " + quoteIdentifier(want.database)); err != nil {
			return err
		}
		s.database = want.database
	}
	for _, p := range want.settings {
		if p.Name == settingLogComment || s.applied[p.Name] == p.Value {
			continue
		}
		if err := s.conn.Exec("SET " + p.Name + " = " + quoteString(p.Value)); err != nil {
			return err
		}
		s.applied[p.Name] = p.Value
	}
	return nil
}

func (s *sessions) take(id string, mustExist bool) (*session, *chdb.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.byID[id]
	switch {
	case sess == nil && mustExist:
		return nil, errSessionNotFound.errorf("Session not found")
	case sess == nil && len(s.byID) >= maxSessions:
		return nil, errTooManyQueries.errorf("Too many sessions. Maximum: %d", maxSessions)
	case sess == nil:
		sess = &session{applied: make(map[string]string)}
		s.byID[id] = sess
	case sess.busy:
		return nil, errSessionLocked.errorf("Session is locked by a concurrent client")
	}
	sess.busy = true
	if sess.expire != nil {
		sess.expire.Stop()
	}
	return sess, nil
}

func (s *sessions) giveBack(id string, sess *session, timeout time.Duration, closing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess.busy = false
	if closing || s.closed || timeout == 0 {
		delete(s.byID, id)
		sess.conn.Close()
		return
	}
	sess.expire = time.AfterFunc(timeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.byID[id] == sess && !sess.busy {
			delete(s.byID, id)
			sess.conn.Close()
		}
	})
}

func (s *sessions) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, id)
}

// close ends all sessions. None may be in use.
func (s *sessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for id, sess := range s.byID {
		if sess.expire != nil {
			sess.expire.Stop()
		}
		if !sess.busy && sess.conn != nil {
			sess.conn.Close()
		}
		delete(s.byID, id)
	}
}
