package view

import (
	"html"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	xhtml "golang.org/x/net/html"
)

// Span is the location of a value in the input.
type Span struct {
	// Path is the JSON pointer (RFC 6901) of a string or number in the object, or of the array or
	// object that a composed value comes from. It is "" for a text.
	Path string `json:"path"`
	// Start and End are byte offsets in the text, or in the decoded string at Path, as a half-open
	// range on character boundaries. Both are 0 if Path is not a string.
	Start int `json:"start"`
	End   int `json:"end"`
}

// View is a text without markup and decoration, with a mapping to offsets of the original.
type View struct {
	Path     string
	original string
	Text     string
	offsets  []int32 // offset in original for every byte of Text and its end; nil if equal
}

// Part is a part of a view's text.
type Part struct {
	View       *View
	Start, End int
}

// Text returns the text of a part.
func (p Part) Text() string { return p.View.Text[p.Start:p.End] }

// TextOrEmpty returns the text of a part, or "" for the zero Part.
func (p Part) TextOrEmpty() string {
	if p.View == nil {
		return ""
	}
	return p.Text()
}

// Sub returns the part between two offsets of p's text.
func (p Part) Sub(start, end int) Part { return Part{p.View, p.Start + start, p.Start + end} }

// Trim trims white space and the characters in cut from both ends.
func (p Part) Trim(cut string) Part {
	t := p.Text()
	in := func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(cut, r) }
	left := len(t) - len(strings.TrimLeftFunc(t, in))
	return p.Sub(left, left+len(strings.TrimRightFunc(t[left:], in)))
}

// Split splits p at a separator, at most 64 times.
func (p Part) Split(sep *regexp.Regexp) []Part {
	var parts []Part
	t, last := p.Text(), 0
	for _, m := range sep.FindAllStringIndex(t, 64) {
		parts = append(parts, p.Sub(last, m[0]))
		last = m[1]
	}
	return append(parts, p.Sub(last, len(t)))
}

// Span returns the location of a part in the original.
func (p Part) Span() Span {
	start, end := p.Start, p.End
	if p.View.offsets != nil {
		start, end = int(p.View.offsets[start]), int(p.View.offsets[end])
		// End after the last character: markup may precede the next one.
		if p.End > p.Start {
			_, last := utf8.DecodeLastRuneInString(p.View.Text[p.Start:p.End])
			from := int(p.View.offsets[p.End-last])
			if _, n := utf8.DecodeRuneInString(p.View.original[from:]); end > from+n && p.View.original[from] != '&' {
				end = from + n
			}
		}
	}
	// A LaTeX entry may have its parts in another order.
	return Span{Path: p.View.Path, Start: min(start, end), End: max(start, end)}
}

// HTMLTag matches tags that distinguish HTML from text with angle brackets.
var HTMLTag = regexp.MustCompile(`(?i)</?(?:p|br|div|span|a|b|i|em|strong|ul|ol|li|h[1-6]|table|t[rdh]|html|body` +
	`|head|section|article|header|footer|img|script|style)(?:\s[^<>]{0,500})?/?>`)

// New returns the view of a text: without tags and Markdown marks, with entities decoded and white
// space normalized.
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
	v.Text = b.text.String()
	v.offsets = append(b.offsets, int32(len(text))) //nolint:gosec // the input's length is bounded by MaxInput
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

// markdownLink matches a link or image of Markdown.
var markdownLink = regexp.MustCompile(`^!?\[([^\[\]\n]*)\]\([^()\s]+\)`)

// addPlain adds text that starts at an offset of the original.
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
		// Full-width forms of ASCII.
		case r >= '！' && r <= '～':
			b.add(string(r-'！'+'!'), at)
		case r == '\u00a0' || r == '\u3000' || r == '\u202f':
			b.add(" ", at)
		case r == '\u2028' || r == '\u2029' || r == '\v' || r == '\f':
			b.add("\n", at)
		case r == utf8.RuneError && n == 1:
			b.add(" ", at)
		case unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d',
			unicode.IsControl(r) && r != '\n' && r != '\t':
			// Directional marks, zero-width spaces and controls are invisible.
		default:
			b.add(text[i:i+n], at)
		}
		lineStart = r == '\n' || lineStart && unicode.IsSpace(r)
		i += n
	}
}

// addHTML adds the text of HTML, one line for each block.
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

// addEntities adds text with HTML entities.
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

// instruction matches a prompt injection. The sentence, and the rest of its line, are not data
// about a person.
var instruction = regexp.MustCompile(
	`(?i)\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instructions?|prompts?|rules|above|previous|prior` +
		`|everything|context)\b` +
		`|\byou are now\b|\bsystem prompt\b|\bnew instructions?\b|<\|im_(?:start|end)\|>|\[/?(?:INST|SYS)\]` +
		`|^\W*(?:system|assistant|developer)\s*(?:message\s*)?:` +
		`|\b(?:respond|answer|reply|output|return)\s+(?:only|with|exactly|that)\b.{0,60}\b(?:json|profile|confidence` +
		`|e-?mail|name)\b|\bas an ai\b|\bprompt injection\b` +
		`|\bignor(?:iere|ieren sie|ez|a|e)\s+(?:alle|toutes|todas|tutte|as|las|le)\b`)

// instructionStems are lower-case stems for a cheap check.
var instructionStems = []string{ //nolint:gochecknoglobals // a constant list
	"ignor", "disregard", "forget", "override", "you are now", "prompt", "instruction", "<|im_", "[inst", "[/inst",
	"[sys", "system", "assistant", "developer", "respond", "answer", "reply", "output", "return", "as an ai",
}

// FindInstructions returns the ranges of prompt injections in a text, in order.
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

// sentenceStart returns the start of the sentence around an offset.
func sentenceStart(line string, at int) int {
	for i := at; i > 0; i-- {
		if line[i-1] == ' ' && i > 1 && strings.IndexByte(".!?;", line[i-2]) >= 0 {
			return i
		}
	}
	return 0
}

// Blank blanks ranges of a text and keeps its length.
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

// Lines returns the lines of a view, including blank ones, trimmed, at most maxLines.
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

// maxLines limits the lines of one text.
const maxLines = 20_000

var bullet = regexp.MustCompile(
	`^(?:[-•‣▪◦·–—>|]+\s+|[\x{2190}-\x{2bff}\x{1f300}-\x{1faff}\x{fe0f}]+\s*|#{1,6}\s+|\d{1,2}[.)]\s+)`)

// TrimBullet returns a line without its bullet, heading mark or number.
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

// Valid replaces every byte that is not UTF-8 with "?", so that offsets are unchanged.
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

// scriptRanges returns the ranges of HTML scripts and styles.
func scriptRanges(text string) [][2]int {
	var all [][2]int
	for _, m := range scriptElement.FindAllStringIndex(text, -1) {
		all = append(all, [2]int{m[0], m[1]})
	}
	return all
}

// Visible blanks the scripts and styles of HTML.
func Visible(text string) string {
	if HTMLTag.MatchString(text) {
		return Blank(text, scriptRanges(text))
	}
	return text
}
