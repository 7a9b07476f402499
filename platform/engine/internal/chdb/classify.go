package chdb

import (
	"errors"
	"runtime"
	"unsafe"
)

// Class classifies a statement by the state that it changes.
type Class uint32

// The classes, in the library's order from least to most restricted.
const (
	ReadOnly       Class = iota // SELECT, SHOW, DESCRIBE, EXPLAIN, EXISTS, CHECK
	Mutating                    // changes a database
	MutatingGlobal              // changes something outside databases: functions, users, named collections
	Control                     // session state, SYSTEM, KILL, BACKUP, INTO OUTFILE, INSERT INTO FUNCTION
	Unknown                     // parse error, or not classified
)

// Analysis is the parser's analysis of a text, without running it.
type Analysis struct {
	Statements int
	Class      Class
}

// Classify parses a text with the connection's settings. It does not run it.
func (c *Conn) Classify(query string) (Analysis, error) {
	out := struct{ size, statements, flags, class uint32 }{}
	out.size = uint32(unsafe.Sizeof(out))
	state := c.lib.fn.classify(c.conn(), stringData(query), uintptr(len(query)), nil, 0, unsafe.Pointer(&out))
	runtime.KeepAlive(query)
	if state != 0 {
		return Analysis{}, errors.New("chdb: classify: the connection is closed")
	}
	return Analysis{Statements: int(out.statements), Class: Class(out.class)}, nil
}
