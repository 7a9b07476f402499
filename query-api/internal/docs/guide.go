package docs

import (
	"bytes"
	"html/template"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// guide is a guide; its text is in guides/<Name>.md.
type guide struct{ Name, Title string }

// Path returns the path of the guide.
func (g guide) Path() string { return Path + "/guides/" + g.Name }

// guides returns the guides in the order in which a new user needs them.
func guides() []guide {
	return []guide{
		{"first-call", "First call"},
		{"search", "Search"},
		{"cursors", "Cursors"},
		{"webhooks", "Webhooks"},
		{"errors", "Errors and limits"},
	}
}

// content is the data of the template web/page.html.
type content struct {
	Title     string
	Path      string
	Guides    []guide
	Reference bool
	Body      template.HTML
	Headings  []heading
}

// heading is an entry of the table of contents of a guide.
type heading struct{ ID, Text string }

// markdown renders a guide and returns its second-level headings.
func markdown(source []byte) (template.HTML, []heading, error) {
	md := goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	document := md.Parser().Parse(text.NewReader(source))
	var headings []heading
	err := ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		h, ok := n.(*ast.Heading)
		if !ok || !entering || h.Level != 2 {
			return ast.WalkContinue, nil
		}
		var words strings.Builder
		for i := range h.Lines().Len() {
			line := h.Lines().At(i)
			words.Write(line.Value(source))
		}
		id, _ := h.AttributeString("id")
		name, _ := id.([]byte)
		headings = append(headings, heading{ID: string(name), Text: strings.ReplaceAll(words.String(), "`", "")})
		return ast.WalkSkipChildren, nil
	})
	if err != nil {
		return "", nil, err
	}
	var b bytes.Buffer
	if err := md.Renderer().Render(&b, source, document); err != nil {
		return "", nil, err
	}
	return template.HTML(b.String()), headings, nil //nolint:gosec // embedded files, without raw HTML
}
