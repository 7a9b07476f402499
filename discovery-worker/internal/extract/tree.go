package extract

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/event"
)

// node is a JSON value whose members keep their order.
type node struct {
	at      *pointer
	kind    byte // of jsontext.Kind: '{', '[', '"', '0', 't', 'f', 'n'
	text    string
	members []member
	span    Span // of a piece of a text, when spanned
	spanned bool
}

type member struct {
	key   string
	value node
}

// pointer is the JSON pointer of a value; nil is that of the root. Values share the way
// to them: a string for each would take the length of a name times the values below it.
type pointer struct {
	in     *pointer
	name   string // of a member
	index  int    // of an element; -1: a member
	length int    // of all names up to here
}

// maxPointer bounds the names on the way to a value, in bytes. What stands below longer
// ones is not read: sources repeat the way.
const maxPointer = 1000

var errTooDeep = errors.New("the object is nested too deeply or has too many values")

// parseTree reads JSON.
func parseTree(raw jsontext.Value) (node, error) {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	count := 0
	n, err := parseNode(d, nil, 0, &count)
	if err != nil {
		return node{}, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return node{}, errors.New("more than one JSON value")
	}
	return n, nil
}

func parseNode(d *jsontext.Decoder, at *pointer, depth int, count *int) (node, error) {
	if *count++; depth > event.MaxPersonDepth || *count > event.MaxPersonValues {
		return node{}, errTooDeep
	}
	t, err := d.ReadToken()
	if err != nil {
		return node{}, err
	}
	n := node{at: at, kind: byte(t.Kind())}
	switch t.Kind() {
	case '"', '0':
		n.text = strings.ToValidUTF8(t.String(), "\ufffd")
	case '{':
		for d.PeekKind() != '}' {
			key, err := d.ReadToken()
			if err != nil {
				return node{}, err
			}
			name := key.String()
			if err := n.child(d, name, at.below(name, -1), depth, count); err != nil {
				return node{}, err
			}
		}
		_, err = d.ReadToken()
	case '[':
		for d.PeekKind() != ']' {
			if err := n.child(d, "", at.below("", len(n.members)), depth, count); err != nil {
				return node{}, err
			}
		}
		_, err = d.ReadToken()
	}
	return n, err
}

// child reads the next value below a node.
func (n *node) child(d *jsontext.Decoder, name string, at *pointer, depth int, count *int) error {
	if at.length > maxPointer {
		return d.SkipValue()
	}
	value, err := parseNode(d, at, depth+1, count)
	n.members = append(n.members, member{name, value})
	return err
}

func (p *pointer) below(name string, index int) *pointer {
	below := &pointer{in: p, name: name, index: index, length: len(name)}
	if p != nil {
		below.length += p.length
	}
	return below
}

// append writes it.
func (p *pointer) append(b []byte) []byte {
	if p == nil {
		return b
	}
	b = append(p.in.append(b), '/')
	if p.index >= 0 {
		return strconv.AppendInt(b, int64(p.index), 10)
	}
	for _, c := range []byte(p.name) {
		switch c {
		case '~':
			b = append(b, "~0"...)
		case '/':
			b = append(b, "~1"...)
		default:
			b = append(b, c)
		}
	}
	return b
}

// path is the JSON pointer of a node.
func (n node) path() string { return string(n.at.append(nil)) }

// part is the whole of a string as one piece.
func (n node) part() part {
	v := newView(n.path(), n.text)
	return part{v, 0, len(v.text)}.trim("")
}

// strings are the strings and numbers of a value: itself, or those of a list, or
// the named ones of its objects.
func (n node) strings(keys ...string) []node {
	switch n.kind {
	case '"', '0':
		return []node{n}
	case '[':
		var all []node
		for _, m := range n.members {
			all = append(all, m.value.strings(keys...)...)
		}
		return all
	case '{':
		for _, key := range keys {
			for _, m := range n.members {
				if labelKey(m.key) == key {
					if s := m.value.strings(keys...); len(s) > 0 {
						return s[:1]
					}
				}
			}
		}
	}
	return nil
}

// json writes a node.
func (n node) json() jsontext.Value {
	switch n.kind {
	case '"':
		if v, err := json.Marshal(n.text, jsontext.AllowInvalidUTF8(true)); err == nil {
			return v
		}
	case '0':
		return jsontext.Value(n.text)
	case 't':
		return jsontext.Value("true")
	case 'f':
		return jsontext.Value("false")
	}
	return jsontext.Value("null")
}

// place is the span of a node's text.
func (n node) place() Span {
	if n.spanned {
		return n.span
	}
	s := Span{Path: n.path()}
	if n.kind == '"' {
		s.End = len(n.text)
	}
	return s
}
