package view

import (
	"html"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	xhtml "golang.org/x/net/html"
)

// Span is the place in the input that a value rests on.
type Span struct {
	// Path is the JSON pointer (RFC 6901) of a string or number in the object, or of
	// the list or object that a composed value was read from; "" in a text.
	Path string `json:"path"`
	// Start and End are byte offsets in the text, or in the decoded string that Path
	// names, half open and on boundaries of characters. Both are 0 when Path names
	// something that is not a string.
	Start int `json:"start"`
	End   int `json:"end"`
}

// View is a text as it is read: without markup, without what only looks at the
// reader, and with the way back to the original's offsets.
type View struct {
	Path     string
	original string
	Text     string
	offsets  []int32 // offset in original of every byte of text, and of its end; nil when they are the same
}

// Part is a piece of a view's text.
type Part struct {
	View       *View
	Start, End int
}

// Text returns the text of a piece.
func (p Part) Text() string { return p.View.Text[p.Start:p.End] }

// TextOr is the text of a piece, "" of none.
func (p Part) TextOrEmpty() string {
	if p.View == nil {
		return ""
	}
	return p.Text()
}

// Sub is the piece of p that begins and ends at offsets of p's text.
func (p Part) Sub(start, end int) Part { return Part{p.View, p.Start + start, p.Start + end} }

// Trim leaves out what stands at both ends and is in cut, and white space.
func (p Part) Trim(cut string) Part {
	t := p.Text()
	in := func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(cut, r) }
	left := len(t) - len(strings.TrimLeftFunc(t, in))
	return p.Sub(left, left+len(strings.TrimRightFunc(t[left:], in)))
}

// Split cuts p at a separator.
func (p Part) Split(sep *regexp.Regexp) []Part {
	var parts []Part
	t, last := p.Text(), 0
	for _, m := range sep.FindAllStringIndex(t, 64) {
		parts = append(parts, p.Sub(last, m[0]))
		last = m[1]
	}
	return append(parts, p.Sub(last, len(t)))
}

// Span returns where a piece stands in the original.
func (p Part) Span() Span {
	start, end := p.Start, p.End
	if p.View.offsets != nil {
		start, end = int(p.View.offsets[start]), int(p.View.offsets[end])
		if p.End > p.Start { // up to the end of the last character, not to the beginning of the next, before which markup may stand
			_, last := utf8.DecodeLastRuneInString(p.View.Text[p.Start:p.End])
			from := int(p.View.offsets[p.End-last])
			if _, n := utf8.DecodeRuneInString(p.View.original[from:]); end > from+n && p.View.original[from] != '&' {
				end = from + n
			}
		}
	}
	return Span{Path: p.View.Path, Start: min(start, end), End: max(start, end)} // an entry of LaTeX has its parts in another order
}

// HTMLTag is what tells HTML from text with angle brackets.
var HTMLTag = regexp.MustCompile(`(?i)</?(?:p|br|div|span|a|b|i|em|strong|ul|ol|li|h[1-6]|table|t[rdh]|html|body` +
	`|head|section|article|header|footer|img|script|style)(?:\s[^<>]{0,500})?/?>`)

// New reads a text: tags and Markdown's signs left out, entities decoded, odd
// white space made plain.
func New(path, text string) *View {
	v := &View{Path: path, original: text}
	var b builder
	switch {
	case HTMLTag.MatchString(text):
		b.addHTML(text)
	case IsForm(text) && ValidQuery(text):
		b.addForm(text)
	case IsLaTeX(text):
		b.addTeX(text)
	default:
		b.addPlain(text, 0)
	}
	v.Text, v.offsets = b.text.String(), append(b.offsets, int32(len(text))) //nolint:gosec // the input's length is bounded by MaxInput
	return v
}

type builder struct {
	text    strings.Builder
	offsets []int32
}

func (b *builder) add(s string, at int) {
	b.text.WriteString(s)
	for range len(s) {
		b.offsets = append(b.offsets, int32(at)) //nolint:gosec // the input's length is bounded by MaxInput
	}
}

// markdownLink is a link or image of Markdown.
var markdownLink = regexp.MustCompile(`^!?\[([^\[\]\n]*)\]\([^()\s]+\)`)

// plain adds text that begins at an offset of the original.
func (b *builder) addPlain(text string, offset int) {
	lineStart := true
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		at := offset + i
		switch {
		case r == '[' || r == '!':
			if m := markdownLink.FindStringSubmatchIndex(text[i:min(len(text), i+2600)]); m != nil {
				b.addPlain(text[i+m[2]:i+m[3]], offset+i+m[2])
				i += m[1]
				lineStart = false
				continue
			}
			b.add(text[i:i+n], at)
		case r == '*':
			if lineStart && i+1 < len(text) && text[i+1] == ' ' {
				b.add("-", at)
			}
		case r == '`', strings.HasPrefix(text[i:], "__"):
			if r == '_' {
				n = 2
			}
		case r == '\r':
			if !strings.HasPrefix(text[i+1:], "\n") {
				b.add("\n", at)
			}
		case r == '：':
			b.add(": ", at)
		case r >= '！' && r <= '～': // full-width forms of ASCII
			b.add(string(r-'！'+'!'), at)
		case r == '\u00a0' || r == '\u3000' || r == '\u202f':
			b.add(" ", at)
		case r == '\u2028' || r == '\u2029' || r == '\v' || r == '\f':
			b.add("\n", at)
		case r == utf8.RuneError && n == 1:
			b.add(" ", at)
		case unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d', unicode.IsControl(r) && r != '\n' && r != '\t':
			// Marks of direction, zero-width spaces and controls show nothing.
		default:
			b.add(text[i:i+n], at)
		}
		lineStart = r == '\n' || lineStart && unicode.IsSpace(r)
		i += n
	}
}

// html adds the text of HTML, a line a block.
func (b *builder) addHTML(text string) {
	z := xhtml.NewTokenizer(strings.NewReader(text))
	offset, skip := 0, ""
	for {
		kind := z.Next()
		if kind == xhtml.ErrorToken {
			return
		}
		raw := string(z.Raw())
		switch kind {
		case xhtml.TextToken:
			if skip == "" {
				b.addEntities(raw, offset)
			}
		case xhtml.StartTagToken, xhtml.EndTagToken, xhtml.SelfClosingTagToken:
			name, _ := z.TagName()
			switch tag := string(name); tag {
			case "script", "style", "title", "noscript", "template":
				skip = ""
				if kind == xhtml.StartTagToken {
					skip = tag
				}
			case "b", "i", "em", "strong", "span", "a", "small", "u", "code", "sup", "sub", "font", "mark", "abbr":
			default:
				b.add("\n", offset)
			}
		}
		offset += len(raw)
	}
}

// entities adds text in which characters may be written as entities.
func (b *builder) addEntities(raw string, offset int) {
	for i := 0; i < len(raw); {
		next := strings.IndexByte(raw[i:], '&')
		if next < 0 {
			b.addPlain(raw[i:], offset+i)
			return
		}
		b.addPlain(raw[i:i+next], offset+i)
		i += next
		end := strings.IndexByte(raw[i:min(len(raw), i+12)], ';') + 1
		if end == 0 {
			end = 1
		}
		decoded := html.UnescapeString(raw[i : i+end])
		if decoded == "\u00a0" {
			decoded = " "
		}
		b.add(decoded, offset+i)
		i += end
	}
}

// order is a sentence that tells the reader what to do. What such a sentence, and
// what follows it in its paragraph, says of a person is nothing that the input
// states.
var instruction = regexp.MustCompile(`(?i)\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instructions?|prompts?|rules|above|previous|prior|everything|context)\b` +
	`|\byou are now\b|\bsystem prompt\b|\bnew instructions?\b|<\|im_(?:start|end)\|>|\[/?(?:INST|SYS)\]|^\W*(?:system|assistant|developer)\s*(?:message\s*)?:` +
	`|\b(?:respond|answer|reply|output|return)\s+(?:only|with|exactly|that)\b.{0,60}\b(?:json|profile|confidence|e-?mail|name)\b|\bas an ai\b|\bprompt injection\b` +
	`|\bignor(?:iere|ieren sie|ez|a|e)\s+(?:alle|toutes|todas|tutte|as|las|le)\b`)

// orderStems are cheap signs of an order, lower case.
var instructionStems = []string{"ignor", "disregard", "forget", "override", "you are now", "prompt", "instruction", "<|im_", "[inst", "[/inst", "[sys", "system", "assistant", "developer", "respond", "answer", "reply", "output", "return", "as an ai"} //nolint:gochecknoglobals // a constant list

// Orders are the stretches of a text, in order, that give orders.
func FindInstructions(text string) [][2]int {
	var found [][2]int
	start := 0
	for line := range strings.Lines(text) {
		lower := strings.ToLower(line)
		for _, stem := range instructionStems {
			if !strings.Contains(lower, stem) {
				continue
			}
			if m := instruction.FindStringIndex(line); m != nil {
				from := sentenceStart(line, m[0])
				found = append(found, [2]int{start + from, start + len(line)})
			}
			break
		}
		start += len(line)
	}
	return found
}

// sentenceStart is where the sentence around an offset begins.
func sentenceStart(line string, at int) int {
	for i := at; i > 0; i-- {
		if line[i-1] == ' ' && i > 1 && strings.IndexByte(".!?;", line[i-2]) >= 0 {
			return i
		}
	}
	return 0
}

// Without blanks stretches of a text, its length kept.
func Blank(text string, stretches [][2]int) string {
	if len(stretches) == 0 {
		return text
	}
	b := []byte(text)
	for _, s := range stretches {
		for i := s[0]; i < s[1]; i++ {
			if b[i] != '\n' {
				b[i] = ' '
			}
		}
	}
	return string(b)
}

// Lines are the lines of a view, without bullets and Markdown's signs, blank ones
// too, at most maxLines.
func (v *View) Lines() []Part {
	var found []Part
	start := 0
	for line := range strings.Lines(v.Text) {
		if len(found) == maxLines {
			break
		}
		found = append(found, Part{v, start, start + len(line)}.Trim(""))
		start += len(line)
	}
	return found
}

// maxLines bounds the lines of one text that are read by their form.
const maxLines = 20_000

var bullet = regexp.MustCompile(`^(?:[-•‣▪◦·–—>|]+\s+|[\x{2190}-\x{2bff}\x{1f300}-\x{1faff}\x{fe0f}]+\s*|#{1,6}\s+|\d{1,2}[.)]\s+)`)

// Unbulleted is a line without the sign at its beginning.
func TrimBullet(p Part) Part {
	for range 2 { // "- 🏠 Based in Osaka"
		m := bullet.FindStringIndex(p.Text())
		if m == nil {
			break
		}
		p = p.Sub(m[1], p.End-p.Start).Trim("")
	}
	return p
}

// Valid has a "?" for every byte that is not UTF-8, so that offsets stay.
func Valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	b := []byte(s)
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			b[i] = '?'
		}
		i += n
	}
	return string(b)
}

var scriptElement = regexp.MustCompile(`(?is)<(?:script|style)\b.*?(?:</(?:script|style)\s*>|$)`)

// scripts returns the ranges of HTML that browsers do not show.
func scriptRanges(text string) [][2]int {
	var all [][2]int
	for _, m := range scriptElement.FindAllStringIndex(text, -1) {
		all = append(all, [2]int{m[0], m[1]})
	}
	return all
}

// Visible returns a text without what browsers do not show of HTML.
func Visible(text string) string {
	if HTMLTag.MatchString(text) {
		return Blank(text, scriptRanges(text))
	}
	return text
}
