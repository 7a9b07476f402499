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
	"muster/schemas/custom"
	"muster/schemas/event"
)

// Extractor reads inputs: extract.Extractor.
type Extractor interface {
	Extract(ctx context.Context, in extract.Input) (extract.Profile, error)
	Custom(ctx context.Context, in extract.Input, profile extract.Profile, schema jsontext.Value) (map[string]extract.Field, error)
}

// Model answers in structured form: model.Client.
type Model interface {
	Complete(ctx context.Context, r model.Request) (jsontext.Value, error)
	Name() string
}

// Config is what a [Builder] works with. Model may be nil.
type Config struct {
	Extractor Extractor
	Reader    *people.Reader
	Finder    *finder.Finder
	Model     Model
	// Erased says that a JSON text tells of somebody who was erased; nil: nobody was.
	Erased func(raw []byte) bool
	Logger *slog.Logger
}

// Builder makes profiles. It is safe for concurrent use.
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
	return &Builder{extractor: cfg.Extractor, reader: cfg.Reader, finder: cfg.Finder, model: cfg.Model, erased: cfg.Erased, logger: cfg.Logger}
}

// Result is a profile.
type Result struct {
	JSON jsontext.Value
	// Empty profiles hold nothing but nulls.
	Empty bool
	// Degraded names the stages that gave no answer.
	Degraded []string
	// Identities are the records that were used, as "<kind> <identity>".
	Identities []string
	Versions   map[string]string
}

// ErrInput says that the task itself cannot be worked on, ever.
var ErrInput = errors.New("the input cannot be read")

// input is the "person" of a call.
type input struct {
	extract.Input
	text string // as it is shown to a model
}

// Build makes the profile that a task asks for.
func (b *Builder) Build(ctx context.Context, task *event.ContextTask) (*Result, error) {
	schema, err := custom.Parse("schema", task.Schema)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	var in input
	if task.Person.Kind() == '"' {
		if err := json.Unmarshal(task.Person, &in.Text); err != nil {
			return nil, fmt.Errorf("%w: person: %w", ErrInput, err)
		}
		in.text = in.Text
	} else {
		in.Object, in.text = task.Person, string(task.Person)
	}
	said, err := b.extractor.Extract(ctx, in.Input)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("read the input: %w", context.Cause(ctx))
		}
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	if b.erased != nil && b.erased(task.Person) {
		return nobody(schema)
	}
	out := &Result{Versions: make(map[string]string)}
	matches, degraded, err := b.find(ctx, said)
	if err != nil {
		return nil, err
	}
	out.Degraded = degraded
	records, sources, err := b.records(ctx, matches, out)
	if err != nil {
		return nil, err
	}
	fields := merge(append(sources, own(said))...)
	generated, err := b.generate(ctx, in, said, schema, task, fields, records, out)
	if err != nil {
		return nil, err
	}
	out.JSON, out.Empty, err = render(fields, schema, generated, task.Confidence)
	if err != nil {
		return nil, fmt.Errorf("write profile: %w", err)
	}
	if b.erased != nil && b.erased(out.JSON) {
		return nobody(schema)
	}
	return out, nil
}

// nobody is the profile of somebody who was erased: nothing, whatever was sent in.
func nobody(schema custom.Schema) (*Result, error) {
	text, nothing, err := render(nil, schema, nil, 1)
	if err != nil {
		return nil, fmt.Errorf("write profile: %w", err)
	}
	return &Result{JSON: text, Empty: nothing}, nil
}

// own are the fields that the input itself states.
func own(said extract.Profile) Fields {
	out := make(Fields, len(said.Fields))
	for path, f := range said.Fields {
		out[path] = Value{JSON: f.Value, Confidence: f.Confidence, Source: span(f.Span.Path, f.Span.Start, f.Span.End)}
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
	slices.SortStableFunc(matches, func(a, b match) int { return trust(a.ref.Platform) - trust(b.ref.Platform) })
	var records []people.Record
	var sources []Fields
	for _, m := range matches {
		r, ok := found[m.ref]
		if !ok { // the microblog has no webset
			sources = append(sources, account(m))
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

// account are the fields of an account without a record.
func account(m match) Fields {
	name, err := json.Marshal(m.account.Username)
	if err != nil {
		return nil
	}
	return Fields{m.ref.Platform + ".username": Value{
		JSON: name, Confidence: m.confidence, Source: Source{Type: fromRecord, Platform: m.ref.Platform, Username: m.account.Username},
	}}
}

// trust orders platforms at equal confidence.
func trust(platform string) int {
	return slices.Index([]string{"network", "codehost", "microblog"}, platform)
}
