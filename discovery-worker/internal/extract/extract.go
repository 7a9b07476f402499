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

// MaxInput is the longest input that is read, in bytes: the API's own limit of a
// body (rulings.md, Errors).
const MaxInput = 1 << 20

// Options are what an [Extractor] may be given. The zero value is useful.
type Options struct {
	// Platforms knows the platforms' hosts; nil means identity.Default().
	Platforms *identity.Platforms
}

// Input is the "person" of POST /v1/context: a text or an object.
type Input struct {
	// Text is read when Object is empty.
	Text string
	// Object is any JSON value; strings anywhere in it are read.
	Object jsontext.Value
}

// Span is the place in the input that a value rests on.
type Span = view.Span

// Types of an [Identifier].
const (
	Email   = "email"   // Value is identity.EmailKey's form
	Phone   = "phone"   // Value is E.164
	URL     = "url"     // Value is a web address that is no account
	Account = "account" // Value is a username on Platform
	Company = "company" // Value is a company's slug on Platform
)

// Identifier is something by which a person, or a company, can be found.
type Identifier struct {
	Type  string
	Value string
	// Platform is one of identity.PlatformNames for accounts and companies, else "".
	Platform   string
	Confidence float64
	Span       Span

	link string // URL that was written
	role string // what a label said of it: "personal", "work"
}

// Field is one value of the profile.
type Field struct {
	// Value is JSON: a string, or a list of objects as the network webset has them.
	Value      jsontext.Value
	Confidence float64
	Span       Span
	// Of is the path of the profile's field that an answer of [Extractor.Custom]
	// repeats, empty for what the input alone says.
	ProfilePath string
}

// Profile is what an input says.
type Profile struct {
	// Identifiers are in the order of the input, each once.
	Identifiers []Identifier
	// Fields are by path. Strings: first_name, last_name, full_name, personal_email,
	// codehost.url, codehost.username, network.url, network.username,
	// network.headline, current_position.summary, current_position.start (YYYY-MM-DD),
	// current_position.company.name, current_position.company.network_url
	// (interface.md, Context profile), location.city, location.state,
	// location.country. codehost.id is a number. Lists with the entries of the network webset's record:
	// experience, education, skills, languages.
	Fields map[string]Field
}

// Extractor reads inputs.
type Extractor struct {
	*phrase.Reader
	platforms *identity.Platforms
	words     *lexicon.Words
	dates     *dates.Reader
	prose     *prosePatterns
	// mentioning are the forms of texts about others.
	mentionForms *mentionPatterns
	handles      *handlePatterns
	careers      careerPatterns
	urls         urlFinder
}

// New makes an Extractor. It compiles the expressions and lists once.
func New(o Options) (*Extractor, error) {
	words, err := lexicon.New()
	if err != nil {
		return nil, fmt.Errorf("read the extractor's word lists: %w", err)
	}
	if o.Platforms == nil {
		o.Platforms = identity.Default()
	}
	d := dates.New()
	return &Extractor{
		Reader: phrase.New(words, d), platforms: o.Platforms, words: words, dates: d, prose: newProsePatterns(d), mentionForms: newMentionPatterns(d),
		handles: newHandlePatterns(), careers: newCareerPatterns(), urls: newURLFinder(),
	}, nil
}

// Extract reads an input. The error is of the context, or says that the input is
// too long or no JSON.
func (e *Extractor) Extract(ctx context.Context, in Input) (Profile, error) {
	f, err := e.collect(ctx, in)
	if err != nil {
		return Profile{}, err
	}
	return f.profile(e), nil
}

// read collects what the input states.
func (e *Extractor) collect(ctx context.Context, in Input) (*facts, error) {
	if len(in.Text) > MaxInput || len(in.Object) > MaxInput {
		return nil, fmt.Errorf("the input is longer than %d bytes", MaxInput)
	}
	f := &facts{seen: map[string]int{}}
	if len(in.Object) == 0 {
		return f, e.readText(ctx, f, "", in.Text, wholeText)
	}
	tree, err := tree.Parse(in.Object)
	if err != nil {
		return nil, fmt.Errorf("read the input: %w", err)
	}
	return f, e.readObject(ctx, f, tree)
}
