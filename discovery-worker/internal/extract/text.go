package extract

import (
	"context"

	"muster/discovery-worker/internal/extract/tree"
	"muster/discovery-worker/internal/extract/view"
)

// How much of a text is taken for the person's own page.
const (
	wholeText    = iota // the input is this text: its first lines may be a card
	proseField          // a member that holds prose
	unknownField        // a member that nobody knows
)

// text reads a text: identifiers anywhere, then labels, parts under headings,
// cards, and sentences.
func (e *Extractor) readText(ctx context.Context, f *facts, path, text string, how int) error {
	text = view.Valid(text)
	text = view.Blank(text, view.FindInstructions(text))
	if how == wholeText && tree.IsXML(text) {
		return e.readXML(ctx, f, path, text)
	}
	v := view.New(path, text)
	if view.IsLaTeX(text) || view.IsForm(text) && view.ValidQuery(text) {
		e.findViewedIdentifiers(f, v)
	} else {
		e.findIdentifiers(f, path, view.Visible(text))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	e.findPhones(f, v)
	e.findHandles(f, v)
	if err := ctx.Err(); err != nil {
		return err
	}
	d := &document{e: e, f: f, lines: v.Lines()}
	d.used, d.listed = make([]bool, len(d.lines)), make([]bool, len(d.lines))
	if how != unknownField || len(d.lines) > 1 {
		d.readCareers()
		d.readTables()
		d.readStackedLabels()
		d.readLabels()
		d.readSections()
		d.readMailboxes()
		if how == wholeText || len(d.lines) > 1 {
			d.readCards()
			d.readOwner()
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.readSentences(ctx)
}

// document is a text while it is read line by line.
type document struct {
	e     *Extractor
	f     *facts
	lines []view.Part
	used  []bool
	// listed are the lines of a list of others, whose names are not the person's.
	listed []bool

	labeledJob  position   // of which labels speak
	block       labelBlock // what stands with it in a list of jobs or schools
	vcard       bool
	firstPerson bool // the text is signed by who wrote it
}
