package extract

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// node is a JSON value whose members keep their order.
type node struct {
	path    string
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

// Bounds of an object.
const (
	maxDepth = 32
	maxNodes = 200_000
)

var errTooDeep = errors.New("the object is nested too deeply or has too many values")

// parseTree reads JSON.
func parseTree(raw jsontext.Value) (node, error) {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	count := 0
	n, err := parseNode(d, "", 0, &count)
	if err != nil {
		return node{}, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return node{}, errors.New("more than one JSON value")
	}
	return n, nil
}

func parseNode(d *jsontext.Decoder, path string, depth int, count *int) (node, error) {
	if *count++; depth > maxDepth || *count > maxNodes {
		return node{}, errTooDeep
	}
	t, err := d.ReadToken()
	if err != nil {
		return node{}, err
	}
	n := node{path: path, kind: byte(t.Kind())}
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
			value, err := parseNode(d, path+"/"+pointer(name), depth+1, count)
			if err != nil {
				return node{}, err
			}
			n.members = append(n.members, member{name, value})
		}
		_, err = d.ReadToken()
	case '[':
		for d.PeekKind() != ']' {
			value, err := parseNode(d, path+"/"+strconv.Itoa(len(n.members)), depth+1, count)
			if err != nil {
				return node{}, err
			}
			n.members = append(n.members, member{"", value})
		}
		_, err = d.ReadToken()
	}
	return n, err
}

func pointer(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// part is the whole of a string as one piece.
func (n node) part() part {
	v := newView(n.path, n.text)
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
