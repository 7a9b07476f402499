package profile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/discovery-worker/internal/extract"
	"muster/discovery-worker/internal/finder"
	"muster/discovery-worker/internal/model"
	"muster/discovery-worker/internal/people"
	"muster/schemas/customfield"
	"muster/schemas/event"
)

// Extractor is implemented by extract.Extractor.
type Extractor interface {
	Extract(ctx context.Context, in extract.Input) (extract.Profile, error)
	AnswerSchema(ctx context.Context, in extract.Input, profile extract.Profile,
		schema jsontext.Value) (map[string]extract.Field, error)
}

// Model is implemented by model.Client.
type Model interface {
	Complete(ctx context.Context, r model.Request) (jsontext.Value, error)
	Name() string
}

// Config configures a [Builder]. Model and Erased may be nil.
type Config struct {
	Extractor Extractor
	Reader    *people.Reader
	Finder    *finder.Finder
	Model     Model
	// Erased reports whether a JSON text contains data about an erased person.
	Erased func(raw []byte) bool
	Logger *slog.Logger
}

// Builder builds profiles. It is safe for concurrent use.
type Builder struct {
	extractor Extractor
	reader    *people.Reader
	finder    *finder.Finder
	model     Model
	erased    func(raw []byte) bool
	logger    *slog.Logger
}

// New returns a builder.
func New(cfg Config) *Builder {
	return &Builder{extractor: cfg.Extractor, reader: cfg.Reader, finder: cfg.Finder, model: cfg.Model,
		erased: cfg.Erased, logger: cfg.Logger}
}

// Result is a profile.
type Result struct {
	JSON jsontext.Value
	// Empty means that the profile has only null values.
	Empty bool
	// Degraded names the stages that failed.
	Degraded []string
	// Identities are the records that were used, as "<kind> <identity>".
	Identities []string
	Versions   map[string]string
}

// ErrInput is returned if the task's input is invalid. Retrying is pointless.
var ErrInput = errors.New("invalid input")

// input is the "person" of a call.
type input struct {
	extract.Input
	modelText string // as shown to a model
}

// Build builds the profile of a task.
func (b *Builder) Build(ctx context.Context, task *event.ContextTask) (*Result, error) {
	schema, err := customfield.Parse("schema", task.Schema)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	var in input
	if task.Person.Kind() == '"' {
		if err := json.Unmarshal(task.Person, &in.Text); err != nil {
			return nil, fmt.Errorf("%w: person: %w", ErrInput, err)
		}
		in.modelText = in.Text
	} else {
		in.Object, in.modelText = task.Person, string(task.Person)
	}
	extracted, err := b.extractor.Extract(ctx, in.Input)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("read input: %w", context.Cause(ctx))
		}
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	if b.erased != nil && b.erased(task.Person) {
		return emptyResult(schema)
	}
	out := &Result{Versions: make(map[string]string)}
	matches, degraded, err := b.findMatches(ctx, extracted)
	if err != nil {
		return nil, err
	}
	out.Degraded = degraded
	records, sources, err := b.records(ctx, matches, out)
	if err != nil {
		return nil, err
	}
	fields := merge(append(sources, inputFields(extracted))...)
	generated, err := b.generate(ctx, in, extracted, schema, task, fields, records, out)
	if err != nil {
		return nil, err
	}
	out.JSON, out.Empty, err = render(fields, schema, generated, task.Confidence)
	if err != nil {
		return nil, fmt.Errorf("write profile: %w", err)
	}
	if b.erased != nil && b.erased(out.JSON) {
		return emptyResult(schema)
	}
	return out, nil
}

// emptyResult returns the profile of an erased person: all values are null.
func emptyResult(schema customfield.Schema) (*Result, error) {
	text, empty, err := render(nil, schema, nil, 1)
	if err != nil {
		return nil, fmt.Errorf("write profile: %w", err)
	}
	return &Result{JSON: text, Empty: empty}, nil
}

// inputFields returns the fields that the input itself has.
func inputFields(extracted extract.Profile) Fields {
	out := make(Fields, len(extracted.Fields))
	for path, f := range extracted.Fields {
		out[path] = Value{JSON: f.Value, Confidence: f.Confidence,
			Source: inputSource(f.Span.Path, f.Span.Start, f.Span.End)}
	}
	return out
}

// records reads the records of the matches, and their fields.
func (b *Builder) records(ctx context.Context, matches []match, out *Result) ([]people.Record, []Fields, error) {
	refs := make([]people.Ref, len(matches))
	for i, m := range matches {
		refs[i] = m.ref
	}
	found, err := b.reader.Records(ctx, refs)
	if err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(matches, func(a, b match) int {
		return platformOrder(a.ref.Platform) - platformOrder(b.ref.Platform)
	})
	var records []people.Record
	var sources []Fields
	for _, m := range matches {
		r, ok := found[m.ref]
		if !ok { // the microblog has no webset
			sources = append(sources, accountFields(m))
			continue
		}
		fields, err := fieldsOf(r, m.confidence)
		if err != nil {
			return nil, nil, fmt.Errorf("read record: %w", err)
		}
		records, sources = append(records, r), append(sources, fields)
		out.Identities = append(out.Identities, r.Platform+"-person "+r.Identity)
	}
	return records, sources, nil
}

// accountFields returns the fields of an account without a record.
func accountFields(m match) Fields {
	name, err := json.Marshal(m.account.Username)
	if err != nil {
		return nil
	}
	return Fields{m.ref.Platform + ".username": Value{
		JSON: name, Confidence: m.confidence,
		Source: Source{Type: sourceRecord, Platform: m.ref.Platform, Username: m.account.Username},
	}}
}

// platformOrder returns the precedence of a platform at equal confidence.
func platformOrder(platform string) int {
	return slices.Index([]string{"network", "codehost", "microblog"}, platform)
}
