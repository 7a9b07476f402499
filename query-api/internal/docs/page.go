package docs

import (
	"bytes"
	"fmt"
	"html/template"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// page is a rendered Markdown page.
type page struct {
	Title    string
	Path     string // URL path
	Source   string // path in the repository
	Nested   bool   // in a directory below deploy/docs
	Body     template.HTML
	Headings []heading // second level
	Sections []section // the text, for search
}

// heading is an entry of the table of contents of a page.
type heading struct{ ID, Text string }

// section is the text from one heading to the next.
type section struct {
	page    *page
	heading heading
	level   int
	text    string
}

// group is a titled list of pages in the navigation.
type group struct {
	Title string
	Pages []*page
}

// converter renders Markdown files of the repository as pages.
type converter struct {
	served map[string]string // repository path -> URL path
	md     goldmark.Markdown
}

func newConverter(served map[string]string) *converter {
	return &converter{served, goldmark.New(goldmark.WithExtensions(extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()))}
}

// convert renders a Markdown file. Links to files of the repository lead to the pages that serve them; other ones are
// shown as text with the path.
func (c *converter) convert(p *page, source []byte) error {
	document := c.md.Parser().Parse(text.NewReader(source),
		parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	var links []*ast.Link
	var images []*ast.Image
	var markup []ast.Node
	current := section{page: p}
	var words strings.Builder
	end := func() {
		if current.text = strings.TrimSpace(words.String()); current.text != "" || current.level > 0 {
			p.Sections = append(p.Sections, current)
		}
		words.Reset()
	}
	err := ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if n.Type() == ast.TypeBlock {
				words.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			end()
			id, _ := n.AttributeString("id")
			name, _ := id.([]byte)
			h := heading{ID: string(name), Text: plainText(n, source)}
			current = section{page: p, heading: h, level: n.Level}
			switch n.Level {
			case 1:
				p.Title = h.Text
			case 2:
				p.Headings = append(p.Headings, h)
			}
			// The links of a heading are not visited: headings are link targets.
			return ast.WalkSkipChildren, nil
		case *ast.Link:
			links = append(links, n)
		case *ast.Image:
			images = append(images, n)
		case *ast.HTMLBlock, *ast.RawHTML:
			markup = append(markup, n)
			return ast.WalkSkipChildren, nil
		case *ast.Text:
			words.Write(n.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				words.WriteByte(' ')
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			words.Write(n.Lines().Value(source))
		case *extast.TableCell:
			words.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return err
	}
	end()
	for _, n := range markup {
		n.Parent().RemoveChild(n.Parent(), n)
	}
	for _, n := range links {
		c.resolveLink(p, n, source)
	}
	for _, n := range images {
		if target, ok := c.served[path.Join(path.Dir(p.Source), string(n.Destination))]; ok {
			n.Destination = []byte(target)
		}
	}
	var b bytes.Buffer
	if err := c.md.Renderer().Render(&b, source, document); err != nil {
		return err
	}
	p.Body = template.HTML(b.String()) //nolint:gosec // embedded files, without raw HTML
	if p.Title == "" {
		return fmt.Errorf("%s: no title", p.Source)
	}
	return nil
}

// resolveLink points a link at the served page, or replaces it by its text and the path in the repository.
func (c *converter) resolveLink(p *page, link *ast.Link, source []byte) {
	target, fragment, hasFragment := strings.Cut(string(link.Destination), "#")
	if target == "" || strings.Contains(target, ":") {
		return
	}
	file := target
	if !strings.HasPrefix(target, "/") { // else a guide's link to a served path
		file = path.Join(path.Dir(p.Source), target)
	}
	if resolved := c.served[file]; resolved != "" {
		if hasFragment {
			resolved += "#" + fragment
		}
		link.Destination = []byte(resolved)
		return
	}
	parent, shown := link.Parent(), plainText(link, source)
	for child := link.FirstChild(); child != nil; child = link.FirstChild() {
		parent.InsertBefore(parent, link, child)
	}
	if !strings.HasSuffix(shown, file) {
		parent.InsertBefore(parent, link, ast.NewString([]byte(" ("+file+")")))
	}
	parent.RemoveChild(parent, link)
}

// plainText returns the text of a node without markup.
func plainText(n ast.Node, source []byte) string {
	var b strings.Builder
	// The callback returns no error.
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Value(source))
			if t.SoftLineBreak() {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// anchors generates the IDs of headings as GitHub does, so that links with fragments work in both places. It implements
// [parser.IDs].
type anchors map[string]int

var linkTarget = regexp.MustCompile(`\]\([^)]*\)`)

// Generate returns the ID of a heading.
func (a anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsNumber(r), unicode.IsMark(r), r == '_', r == '-':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, linkTarget.ReplaceAllString(strings.TrimSpace(util.BytesToReadOnlyString(value)), ""))
	n, taken := a[id]
	a[id]++
	if taken {
		id += "-" + strconv.Itoa(n)
	}
	return []byte(id)
}

// Put reserves an ID.
func (a anchors) Put(value []byte) { a[string(value)]++ }
