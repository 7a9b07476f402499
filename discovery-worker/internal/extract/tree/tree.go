package tree

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/discovery-worker/internal/extract/lexicon"
	"muster/discovery-worker/internal/extract/view"
	"muster/schemas/event"
)

// Node is a JSON value with its members in order.
type Node struct {
	pointer *pointer
	Kind    byte // a jsontext.Kind: '{', '[', '"', '0', 't', 'f', 'n'
	Text    string
	Members []Member
	Span    view.Span // location in a text, if Spanned
	Spanned bool
}

// Member is a member of an object or an element of an array.
type Member struct {
	Key   string
	Value Node
}

// pointer is the JSON pointer of a value, as a linked list. Nil is the root. Values share their
// parents: a string for each would be quadratic in long names.
type pointer struct {
	parent *pointer
	name   string // of an object member
	index  int    // of an array element, -1 for an object member
	length int    // total length of the names
}

// maxPointer limits the names of a pointer, in bytes. Values below are not read, because sources
// repeat their pointer.
const maxPointer = 1000

var errTooDeep = errors.New("the object is too deeply nested or has too many values")

// Parse parses JSON. It returns an error if the value is invalid, too deep or too large.
func Parse(raw jsontext.Value) (Node, error) {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	count := 0
	n, err := parseNode(d, nil, 0, &count)
	if err != nil {
		return Node{}, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return Node{}, errors.New("more than one JSON value")
	}
	return n, nil
}

func parseNode(d *jsontext.Decoder, at *pointer, depth int, count *int) (Node, error) {
	if *count++; depth > event.MaxPersonDepth || *count > event.MaxPersonValues {
		return Node{}, errTooDeep
	}
	t, err := d.ReadToken()
	if err != nil {
		return Node{}, err
	}
	n := Node{pointer: at, Kind: byte(t.Kind())}
	switch t.Kind() {
	case '"', '0':
		n.Text = strings.ToValidUTF8(t.String(), "\ufffd")
	case '{':
		for d.PeekKind() != '}' {
			key, err := d.ReadToken()
			if err != nil {
				return Node{}, err
			}
			name := key.String()
			if err := n.readChild(d, name, at.child(name, -1), depth, count); err != nil {
				return Node{}, err
			}
		}
		_, err = d.ReadToken()
	case '[':
		for d.PeekKind() != ']' {
			if err := n.readChild(d, "", at.child("", len(n.Members)), depth, count); err != nil {
				return Node{}, err
			}
		}
		_, err = d.ReadToken()
	}
	return n, err
}

// readChild reads the next value below a node.
func (n *Node) readChild(d *jsontext.Decoder, name string, at *pointer, depth int, count *int) error {
	if at.length > maxPointer {
		return d.SkipValue()
	}
	value, err := parseNode(d, at, depth+1, count)
	n.Members = append(n.Members, Member{name, value})
	return err
}

func (p *pointer) child(name string, index int) *pointer {
	below := &pointer{parent: p, name: name, index: index, length: len(name)}
	if p != nil {
		below.length += p.length
	}
	return below
}

// append appends the JSON pointer to b.
func (p *pointer) append(b []byte) []byte {
	if p == nil {
		return b
	}
	b = append(p.parent.append(b), '/')
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

// Path returns the JSON pointer of a node.
func (n Node) Path() string { return string(n.pointer.append(nil)) }

// Part returns the text of a string node.
func (n Node) Part() view.Part {
	v := view.New(n.Path(), n.Text)
	return view.Part{View: v, Start: 0, End: len(v.Text)}.Trim("")
}

// Strings returns the strings and numbers of a value: itself, those of an array, or those of an
// object with the given keys.
func (n Node) Strings(keys ...string) []Node {
	switch n.Kind {
	case '"', '0':
		return []Node{n}
	case '[':
		var all []Node
		for _, m := range n.Members {
			all = append(all, m.Value.Strings(keys...)...)
		}
		return all
	case '{':
		for _, key := range keys {
			for _, m := range n.Members {
				if lexicon.LabelKey(m.Key) == key {
					if s := m.Value.Strings(keys...); len(s) > 0 {
						return s[:1]
					}
				}
			}
		}
	}
	return nil
}

// JSON returns a scalar node as JSON, and null for others.
func (n Node) JSON() jsontext.Value {
	switch n.Kind {
	case '"':
		if v, err := json.Marshal(n.Text, jsontext.AllowInvalidUTF8(true)); err == nil {
			return v
		}
	case '0':
		return jsontext.Value(n.Text)
	case 't':
		return jsontext.Value("true")
	case 'f':
		return jsontext.Value("false")
	}
	return jsontext.Value("null")
}

// TextSpan returns the span of a node's text.
func (n Node) TextSpan() view.Span {
	if n.Spanned {
		return n.Span
	}
	s := view.Span{Path: n.Path()}
	if n.Kind == '"' {
		s.End = len(n.Text)
	}
	return s
}
