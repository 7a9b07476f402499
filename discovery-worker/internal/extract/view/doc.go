// Package view converts markup to plain lines: Markdown, HTML, LaTeX, web forms.
//
// A [View] maps every byte of its text to an offset in the original, so that a [Part] of it has a
// [Span]. LaTeX becomes lines with a label and a value, a heading, or a list entry.
// [FindInstructions] finds prompt injections and [Blank] blanks them. Every pass is linear, and
// LaTeX groups are read at most 24 levels deep.
package view
