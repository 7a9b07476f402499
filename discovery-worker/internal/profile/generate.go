package profile

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/discovery-worker/internal/extract"
	"muster/discovery-worker/internal/model"
	"muster/discovery-worker/internal/people"
	"muster/schemas/customfield"
	"muster/schemas/event"
)

const (
	// maxModelConfidence limits the confidence of a model's value, because models are
	// overconfident. maxUnquotedConfidence applies if its quote is not in the source.
	maxModelConfidence    = 0.95
	maxUnquotedConfidence = 0.4
	// maxRecordBytes limits the part of a record that is shown to a model.
	maxRecordBytes = 12 << 10
)

// generate fills in the caller's schema: from the input without a model first, and from the model
// where it is more confident. Every value is valid under its type.
func (b *Builder) generate(ctx context.Context, in input, extracted extract.Profile, schema customfield.Schema,
	task *event.ContextTask, fields Fields, records []people.Record, out *Result) (map[string]Value, error) {
	if len(schema) == 0 {
		return nil, nil
	}
	generated := make(map[string]Value, len(schema))
	offer := func(f customfield.Field, v Value) {
		if have, ok := generated[f.Name]; isEmpty(v.JSON) || ok && have.Confidence >= v.Confidence ||
			f.Type.Check(v.JSON) != nil {
			return
		}
		generated[f.Name] = v
	}
	// Fields of the profile answer keys with the same meaning, including those from records.
	extended := extracted
	extended.Fields = make(map[string]extract.Field, len(fields))
	for path, v := range fields {
		extended.Fields[path] = extract.Field{Value: v.JSON, Confidence: v.Confidence, Span: spanOf(v.Source)}
	}
	stated, err := b.extractor.AnswerSchema(ctx, in.Input, extended, task.Schema)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("answer schema: %w", context.Cause(ctx))
		}
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	for _, f := range schema {
		if v, ok := stated[f.Name]; ok {
			offer(f, Value{JSON: v.Value, Confidence: round(v.Confidence), Source: sourceOf(fields, v)})
		}
	}
	if b.model == nil {
		return generated, nil
	}
	out.Versions["language_model"] = b.model.Name() + "/" + promptVersion
	answers, err := b.askModel(ctx, in, schema, records)
	var abstained *model.AbstainError
	switch {
	case errors.As(err, &abstained):
		if !slices.Contains(out.Degraded, event.StageLanguageModel) {
			out.Degraded = append(out.Degraded, event.StageLanguageModel)
		}
		return generated, nil
	case err != nil:
		return nil, err
	}
	for _, f := range schema {
		if v, ok := answers[f.Name]; ok {
			v.Source.Model = b.model.Name()
			offer(f, v)
		}
	}
	return generated, nil
}

// spanOf returns the span of a source in the input, or the zero span for a record.
func spanOf(s Source) extract.Span {
	if s.Type != sourceInput {
		return extract.Span{}
	}
	return extract.Span{Path: *s.Path, Start: *s.Start, End: *s.End}
}

// sourceOf returns the source of a value: that of the profile field it repeats, or the input.
func sourceOf(fields Fields, v extract.Field) Source {
	if f, ok := fields[v.ProfilePath]; ok {
		return f.Source
	}
	return inputSource(v.Span.Path, v.Span.Start, v.Span.End)
}

// promptVersion is the version of the instructions. Change it with them.
const promptVersion = "context-1"

const instructions = `You fill in fields about one person. The data is about that person: "input" is what was sent ` +
	"in, each \"record\" is a record of the same person.\n" +
	"For every field of the schema give:\n" +
	"- value: what the data says, of the type that the schema names; null when the data does not say it. Never " +
	"guess, never use what you know from elsewhere.\n" +
	"- confidence: from 0 to 1, how sure it is that the data says this of this person.\n" +
	"- source: the name of the piece of data that says it.\n" +
	"- quote: the shortest words of that piece, copied exactly, that say it; null when value is null.\n" +
	"A field's description says what is meant by it."

// propertyName matches names that every server accepts for properties.
var propertyName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// askModel lets the model fill in a schema.
func (b *Builder) askModel(ctx context.Context, in input, schema customfield.Schema,
	records []people.Record) (map[string]Value, error) {
	data := []model.DataBlock{{Name: sourceInput, Text: in.modelText}}
	names := []string{sourceInput}
	for i, r := range records {
		name := "record" + strconv.Itoa(i+1)
		names = append(names, name)
		data = append(data, model.DataBlock{Name: name,
			Text: strings.ToValidUTF8(string(r.JSON[:min(len(r.JSON), maxRecordBytes)]), "")})
	}
	// Records come before the input, because a long input is cut.
	slices.Reverse(data)
	properties, keys := make(map[string]any, len(schema)), make([]string, len(schema))
	loose := false
	for i, f := range schema {
		keys[i] = f.Name
		if !propertyName.MatchString(f.Name) {
			keys[i] = "field_" + strconv.Itoa(i+1)
			for slices.ContainsFunc(schema, func(f customfield.Field) bool { return f.Name == keys[i] }) {
				keys[i] += "_"
			}
		}
		value, l := f.Type.JSONSchema()
		loose = loose || l
		about := f.Name
		if f.Type.Description != "" {
			about += ": " + f.Type.Description
		}
		properties[keys[i]] = map[string]any{
			"type": "object", "description": about, "additionalProperties": false,
			"required": []string{"value", "confidence", "source", "quote"},
			"properties": map[string]any{
				"value":      map[string]any{"anyOf": []any{value, map[string]any{"type": "null"}}},
				"confidence": map[string]any{"type": "number", "minimum": 0, "maximum": 1},
				"source":     map[string]any{"type": "string", "enum": names},
				"quote":      map[string]any{"type": []string{"string", "null"}},
			},
		}
	}
	schemaText, err := customfield.Encode(
		map[string]any{"type": "object", "additionalProperties": false, "required": keys,
			"properties": properties},
	)
	if err != nil {
		return nil, fmt.Errorf("write model schema: %w", err)
	}
	answer, err := b.model.Complete(ctx,
		model.Request{Task: "context", Instructions: instructions, Data: data, Schema: schemaText, Loose: loose})
	if err != nil {
		return nil, err
	}
	var filled map[string]struct {
		Value      jsontext.Value `json:"value"`
		Confidence float64        `json:"confidence"`
		Source     string         `json:"source"`
		Quote      string         `json:"quote"`
	}
	// The answer is valid under the schema.
	if err := json.Unmarshal(answer, &filled); err != nil {
		return nil, fmt.Errorf("read model answer: %w", err)
	}
	out := make(map[string]Value, len(schema))
	for i, f := range schema {
		a, ok := filled[keys[i]]
		if !ok || isEmpty(a.Value) {
			continue
		}
		source, found := locateQuote(ctx, in, records, a.Source, a.Quote)
		c := min(a.Confidence, maxModelConfidence)
		if !found {
			c = min(c, maxUnquotedConfidence)
		}
		out[f.Name] = Value{JSON: a.Value, Confidence: round(c), Source: source}
	}
	// Some quotes were not searched for.
	switch err := ctx.Err(); {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &model.AbstainError{Reason: model.Timeout, Err: err}
	case err != nil:
		return nil, fmt.Errorf("check quotes of the model: %w", context.Cause(ctx))
	}
	return out, nil
}

// locateQuote finds the quote of a value in its source.
func locateQuote(ctx context.Context, in input, records []people.Record, name, quote string) (Source, bool) {
	if n, err := strconv.Atoi(strings.TrimPrefix(name, "record")); err == nil && n >= 1 && n <= len(records) {
		r := records[n-1]
		s := Source{Type: sourceRecord, Platform: r.Platform, Username: r.Username, UpdatedAt: r.UpdatedAt}
		_, _, _, found := locateJSON(ctx, r.JSON, quote)
		return s, found
	}
	if len(in.Object) == 0 {
		start, end, found := newLocator(quote).find(in.Text)
		return inputSource("", start, end), found
	}
	path, start, end, found := locateJSON(ctx, in.Object, quote)
	return inputSource(path, start, end), found
}
