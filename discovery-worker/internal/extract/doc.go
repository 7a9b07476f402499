// Package extract reads what a text or an object says about a person, without a model and without the network: identifiers (e-mail addresses, phones, URLs, accounts of the
// platforms), the standard profile fields of the context profile (interface.md, Resources), and what they answer of a request's own schema.
//
// Contract:
//   - Every value has a confidence between 0 and 1 and the span of the input that it rests on: the JSON pointer of a string ("" for a text) and byte offsets in it, which
//     lie on the boundaries of characters.
//   - The same input gives the same profile: nothing is drawn, asked or remembered. An [Extractor] is immutable and safe for concurrent use.
//   - The input is hostile. Sentences that give orders to a reader are passed over, whatever they say. Every pass is linear in the input and every list is bounded: an
//     input of 1 MiB takes about a second of one core, and a context that ends is heeded between passes.
//   - Nothing of the input is logged, and no error repeats it.
//
// How it reads: an object by the names of its members, a text by tables, labels, by headings and the entries below them, by the lines that stand like a card (name, title, company,
// place), and by sentences of known form. What several of them say is put together in one place (facts.go, profile.go), where the surer one wins.
//
// The lists in data are words for recognition, not facts about anybody: they were written for this package. Names of countries and languages
// are those of the Unicode CLDR (golang.org/x/text).
//
// How good it is: TestGolden prints precision and recall over testdata/golden. The other folders are forms that nobody had tuned anything on when they were
// first run; testdata/golden/README.md says what they gave then, and their tests print what they give since the kinds of their misses were worked on.
package extract
