package tree

import (
	"html"
	"regexp"
	"strconv"
	"strings"

	xhtml "golang.org/x/net/html"

	"muster/discovery-worker/internal/extract/view"
	"muster/schemas/event"
)

// xmlElement matches an element that contains only text.
var xmlElement = regexp.MustCompile(`<[A-Za-z_][\w:.-]{0,60}(?:\s[^<>]{0,500})?>[^<>]+</[A-Za-z_]`)

// IsXML reports whether a text is XML and not HTML.
func IsXML(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "<") && strings.Contains(text, "</") &&
		!view.HTMLTag.MatchString(text) && xmlElement.MatchString(text)
}

// xmlReader builds the tree of a document, with elements as object members.
type xmlReader struct {
	tokens *xhtml.Tokenizer
	offset int
	ranges [][2]int // of each element in the text, by the index in its pointer
}

// ParseXML parses XML as an object of its elements. The pointer of an element is its index in
// ranges, which has its location in the text.
func ParseXML(text string) (root Node, ranges [][2]int) {
	r := &xmlReader{tokens: xhtml.NewTokenizer(strings.NewReader(text))}
	r.tokens.SetMaxBuf(len(text) + 1)
	root = r.children("", 0)
	return root, r.ranges
}

// children reads up to the end tag of an element. An element that contains only text becomes a
// string.
func (r *xmlReader) children(name string, depth int) Node {
	n := Node{Kind: '{', pointer: (*pointer)(nil).child(strconv.Itoa(len(r.ranges)), -1)}
	index := len(r.ranges)
	r.ranges = append(r.ranges, [2]int{r.offset, r.offset})
	named := map[string]int{} // indices of members
	for {
		kind := r.tokens.Next()
		raw := string(r.tokens.Raw())
		from := r.offset
		r.offset += len(raw)
		switch kind {
		case xhtml.ErrorToken:
			r.ranges[index][1] = r.offset
			return n
		case xhtml.TextToken:
			if text := strings.TrimSpace(raw); text != "" && len(n.Members) == 0 {
				n.Text = html.UnescapeString(text)
				start := from + strings.Index(raw, text)
				r.ranges[index] = [2]int{start, start + len(text)}
			}
		case xhtml.EndTagToken:
			if end := elementName(strings.TrimPrefix(raw, "</")); end == name || name == "" || depth == 0 {
				if len(n.Members) == 0 {
					n.Kind = '"'
				} else {
					r.ranges[index][1] = from
				}
				return n
			}
		case xhtml.StartTagToken, xhtml.SelfClosingTagToken:
			element := elementName(raw[1:])
			if len(r.ranges) > event.MaxPersonValues || depth >= event.MaxPersonDepth {
				continue
			}
			if kind == xhtml.StartTagToken {
				n.add(named, element, r.children(element, depth+1))
				continue
			}
			child := Node{Kind: '{', pointer: (*pointer)(nil).child(strconv.Itoa(len(r.ranges)), -1)}
			r.ranges = append(r.ranges, [2]int{from, r.offset})
			for more := true; more; {
				var key, value []byte
				if key, value, more = r.tokens.TagAttr(); len(key) > 0 {
					child.Members = append(child.Members,
						Member{string(key), Node{Kind: '"', pointer: child.pointer, Text: string(value)}})
				}
			}
			n.add(named, element, child)
		}
	}
}

// add adds a member. Repeated elements become an array.
func (n *Node) add(named map[string]int, name string, value Node) {
	i, ok := named[name]
	if !ok {
		named[name] = len(n.Members)
		n.Members = append(n.Members, Member{name, value})
		return
	}
	m := &n.Members[i]
	if m.Value.Kind != '[' {
		m.Value = Node{Kind: '[', pointer: m.Value.pointer, Members: []Member{{"", m.Value}}}
	}
	m.Value.Members = append(m.Value.Members, Member{"", value})
}

// elementName returns the name of an element without its namespace.
func elementName(tag string) string {
	if i := strings.IndexAny(tag, " \t\r\n/>"); i >= 0 {
		tag = tag[:i]
	}
	return tag[strings.LastIndexByte(tag, ':')+1:]
}
