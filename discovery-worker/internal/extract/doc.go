// Package extract reads a person's data from a text or an object, without a model and without the
// network: identifiers (e-mail addresses, phone numbers, URLs, accounts), the standard profile
// fields (interface.md, Context profile), and answers to a request's schema.
//
// An [Extractor] dispatches by kind of input. Each kind has a file, and golden answers in testdata:
//
//   - objects, JSON Resume, Europass, XML: object.go
//   - labels and values, tables, vCards: forms.go, tables.go
//   - Japanese résumé forms: careers.go
//   - CVs with sections: cv.go
//   - cards, signatures, profile pages: card.go
//   - sentences: prose.go, prose_job.go, mention.go
//   - handles next to the name of a service, obfuscated addresses: services.go, identifier.go
//   - schemas of requests: schema.go, schema_object.go, schema_cast.go
//
// All of them add to one collection of facts (facts.go), from which profile.go takes the most
// confident value of each field. Package view converts markup to lines, tree reads JSON and XML,
// lexicon holds words and headings, dates and phrase read single phrases.
//
// Every value has a confidence between 0 and 1 and its span in the input. Results are
// deterministic. An Extractor is immutable and safe for concurrent use.
//
// Input is untrusted. Sentences with instructions to a reader are skipped, every pass is linear,
// every list is bounded, and the context is checked between passes. The input is neither logged nor
// quoted in errors.
//
// The golden tests print precision and recall. testdata/golden/README.md has the first result of
// each set.
package extract
