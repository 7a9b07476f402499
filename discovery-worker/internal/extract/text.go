package extract

import (
	"context"

	"muster/discovery-worker/internal/extract/tree"
	"muster/discovery-worker/internal/extract/view"
)

// How much of a text is taken for the person's own page.
const (
	wholeText  = iota // the input is this text: its first lines may be a card
	bodyMember        // a member that holds prose
	someMember        // a member that nobody knows
)

// text reads a text: identifiers anywhere, then labels, parts under headings,
// cards, and sentences.
func (e *Extractor) text(ctx context.Context, f *facts, path, text string, how int) error {
	text = view.Valid(text)
	text = view.Without(text, view.Orders(text))
	if how == wholeText && tree.IsXML(text) {
		return e.xml(ctx, f, path, text)
	}
	v := view.New(path, text)
	if view.IsLaTeX(text) || view.IsForm(text) && view.ValidQuery(text) {
		e.viewed(f, v)
	} else {
		e.identifiers(f, path, view.Visible(text))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	e.phones(f, v)
	e.mentions(f, v)
	if err := ctx.Err(); err != nil {
		return err
	}
	d := &document{e: e, f: f, lines: v.Lines()}
	d.used, d.listed = make([]bool, len(d.lines)), make([]bool, len(d.lines))
	if how != someMember || len(d.lines) > 1 {
		d.careers()
		d.tables()
		d.below()
		d.labels()
		d.sections()
		d.mailboxes()
		if how == wholeText || len(d.lines) > 1 {
			d.cards()
			d.owner()
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.sentences(ctx)
}

// document is a text while it is read line by line.
type document struct {
	e     *Extractor
	f     *facts
	lines []view.Part
	used  []bool
	// listed are the lines of a list of others, whose names are not the person's.
	listed []bool

	labelled    position // of which labels speak
	block       block    // what stands with it in a list of jobs or schools
	vcard       bool
	firstPerson bool // the text is signed by who wrote it
}
