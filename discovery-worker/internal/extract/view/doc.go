// Package view turns the ways in which texts are written into plain lines: Markdown, HTML, LaTeX, forms of browsers.
//
// A [View] keeps the way back: every byte of its text has an offset in the original, so that a [Part] of it has a
// [Span]. LaTeX
// becomes lines of a label and a value, of a heading, or of an entry of a list. Stretches that give orders to a
// reader are found by
// [Orders] and blanked by [Without]. Every pass is linear, and groups of LaTeX are read at most 24 levels deep.
package view
