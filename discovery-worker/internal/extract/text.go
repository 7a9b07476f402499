package extract

import (
	"context"

	"muster/discovery-worker/internal/extract/tree"
	"muster/discovery-worker/internal/extract/view"
)

// Roles of a text, which determine how much of it is about the person.
const (
	wholeText    = iota // the whole input: its first lines may be a card
	proseField          // a field that holds prose
	unknownField        // a field of unknown kind
)

// readText reads a text: identifiers anywhere, then labels, sections, cards and sentences.
func (e *Extractor) readText(ctx context.Context, f *facts, path, text string, role int) error {
	text = view.Valid(text)
	text = view.Blank(text, view.FindInstructions(text))
	if role == wholeText && tree.IsXML(text) {
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
	if role != unknownField || len(d.lines) > 1 {
		d.readCareers()
		d.readTables()
		d.readStackedLabels()
		d.readLabels()
		d.readSections()
		d.readMailboxes()
		if role == wholeText || len(d.lines) > 1 {
			d.readCards()
			d.readOwner()
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.readSentences(ctx)
}

// document is a text that is read line by line.
type document struct {
	e     *Extractor
	f     *facts
	lines []view.Part
	used  []bool
	// listed marks the lines of lists about others, whose names are not the person's.
	listed []bool

	labeledJob  position   // job of the labels read
	block       labelBlock // school of the labels read
	vcard       bool
	firstPerson bool // the text has a signature of its author
}
