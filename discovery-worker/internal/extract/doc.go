// Package extract reads what a text or an object says about a person, without a model and without the network:
// identifiers (e-mail
// addresses, phones, URLs, accounts of the platforms), the standard profile fields (interface.md, Context profile),
// and answers to a
// request's own schema.
//
// An [Extractor] dispatches by kind of input. Each kind has its file, and its golden answers in testdata:
//   - objects, JSON Resume, Europass, XML: object.go
//   - labels and values, tables, vCards: forms.go, tables.go
//   - Japanese career forms: careers.go
//   - CVs in sections: cv.go
//   - cards, signatures, profile pages: card.go
//   - sentences: prose.go, prose_job.go, mention.go
//   - accounts beside the name of a service, hidden addresses: services.go, identifier.go
//
// All of them add to one collection of facts (facts.go), from which profile.go takes the surest of each field.
// Package view turns markup into
// lines, tree reads JSON and XML, lexicon holds words and headings, dates and phrase read single phrases.
//
// Every value has a confidence between 0 and 1 and the span of the input that it rests on. The same input gives the
// same profile. An
// Extractor is immutable and safe for concurrent use. Input is hostile: sentences that give orders to a reader are
// passed over, every
// pass is linear, every list is bounded, and a context that ends is heeded between passes. Nothing of the input is
// logged or repeated in an
// error.
//
// TestGolden and TestWays print precision and recall. testdata/golden/README.md says what each set gave when it was
// first run.
package extract
