package extract

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"muster/discovery-worker/internal/extract/dates"
	"muster/discovery-worker/internal/extract/lexicon"
	"muster/discovery-worker/internal/extract/phrase"
	"muster/discovery-worker/internal/extract/tree"
	"muster/discovery-worker/internal/extract/view"
	"muster/schemas/identity"
)

// MaxInput is the maximum input size in bytes: the API's limit of a body (rulings.md, Errors).
const MaxInput = 1 << 20

// Options are the options of an [Extractor]. The zero value is valid.
type Options struct {
	// Platforms has the hosts of the platforms. Nil means identity.Default().
	Platforms *identity.Platforms
}

// Input is the "person" of POST /v1/context: a text or an object.
type Input struct {
	// Text is used if Object is empty.
	Text string
	// Object is any JSON value. Strings at any depth are read.
	Object jsontext.Value
}

// Span is the location of a value in the input.
type Span = view.Span

// Types of an [Identifier].
const (
	Email   = "email"   // Value is identity.NormalizeEmail's form
	Phone   = "phone"   // Value is E.164
	URL     = "url"     // Value is a web address that is not an account
	Account = "account" // Value is a username on Platform
	Company = "company" // Value is a company slug on Platform
)

// Identifier identifies a person or a company.
type Identifier struct {
	Type  string
	Value string
	// Platform is one of identity.PlatformNames for accounts and companies, otherwise "".
	Platform   string
	Confidence float64
	Span       Span

	link string // URL as written
	role string // from the label: "personal", "work"
}

// Field is one value of the profile.
type Field struct {
	// Value is JSON: a string, a number, or a list of objects as in the network webset.
	Value      jsontext.Value
	Confidence float64
	Span       Span
	// ProfilePath is the path of the profile field that an answer of [Extractor.AnswerSchema]
	// repeats, or "" for an answer from the input alone.
	ProfilePath string
}

// Profile is the extracted data of an input.
type Profile struct {
	// Identifiers are in input order, without duplicates.
	Identifiers []Identifier
	// Fields are by path. Strings: first_name, last_name, full_name, personal_email, codehost.url,
	// codehost.username, network.url, network.username, network.headline, current_position.summary,
	// current_position.start (YYYY-MM-DD), current_position.company.name,
	// current_position.company.network_url (interface.md, Context profile), location.city,
	// location.state, location.country. Number: codehost.id. Lists with the entries of the network
	// webset's record: experience, education, skills, languages.
	Fields map[string]Field
}

// Extractor extracts profiles. It is immutable and safe for concurrent use.
type Extractor struct {
	*phrase.Reader
	platforms *identity.Platforms
	words     *lexicon.Words
	dates     *dates.Reader
	prose     *prosePatterns
	// mentionForms match texts about other people.
	mentionForms *mentionPatterns
	handles      *handlePatterns
	careers      careerPatterns
	urls         urlFinder
}

// New returns an Extractor. It compiles the expressions and lists once.
func New(o Options) (*Extractor, error) {
	words, err := lexicon.New()
	if err != nil {
		return nil, fmt.Errorf("read word lists: %w", err)
	}
	if o.Platforms == nil {
		o.Platforms = identity.Default()
	}
	d := dates.New()
	return &Extractor{
		Reader: phrase.New(words, d), platforms: o.Platforms, words: words, dates: d, prose: newProsePatterns(d),
		mentionForms: newMentionPatterns(d), handles: newHandlePatterns(), careers: newCareerPatterns(),
		urls: newURLFinder(),
	}, nil
}

// Extract extracts the profile of an input. It returns an error if ctx ends, or if the input is too
// long or not JSON.
func (e *Extractor) Extract(ctx context.Context, in Input) (Profile, error) {
	f, err := e.collect(ctx, in)
	if err != nil {
		return Profile{}, err
	}
	return f.profile(e), nil
}

// collect collects the facts of an input.
func (e *Extractor) collect(ctx context.Context, in Input) (*facts, error) {
	if len(in.Text) > MaxInput || len(in.Object) > MaxInput {
		return nil, fmt.Errorf("input is too large: the limit is %d bytes", MaxInput)
	}
	f := &facts{seen: map[string]int{}}
	if len(in.Object) == 0 {
		return f, e.readText(ctx, f, "", in.Text, wholeText)
	}
	tree, err := tree.Parse(in.Object)
	if err != nil {
		return nil, fmt.Errorf("read input: %w", err)
	}
	return f, e.readObject(ctx, f, tree)
}
