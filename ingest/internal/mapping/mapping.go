package mapping

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/itchyny/gojq"

	"muster/ingest/internal/convert"
	"muster/ingest/internal/jsonld"
	"muster/schemas/identity"
	"muster/schemas/record"
)

// Limits limit the resources of a program per object. The zero value of a field selects its default.
type Limits struct {
	// Deadline is the maximum run time; the default is 2 s.
	Deadline time.Duration
	// Records is the maximum number of records; the default is 10,000.
	Records int
	// Bytes is the maximum total size of the records; the default is 64 MiB.
	Bytes int
}

func (l Limits) withDefaults() Limits {
	if l.Deadline <= 0 {
		l.Deadline = 2 * time.Second
	}
	if l.Records <= 0 {
		l.Records = 10_000
	}
	if l.Bytes <= 0 {
		l.Bytes = 64 << 20
	}
	return l
}

//go:embed prelude.jq
var prelude string

//go:embed programs/*.jq
var programs embed.FS

// Program is a compiled mapping.
type Program struct {
	name   string
	sum    string
	code   *gojq.Code
	limits Limits
	jsonLD bool
}

var _ convert.Mapper = (*Program)(nil)

// Shipped is a built-in mapping.
type Shipped struct {
	Name string
	// Source is the program's source. Its first comment describes what it maps.
	Source string
}

// About returns the first line of the program's comment.
func (s Shipped) About() string {
	line, _, _ := strings.Cut(s.Source, "\n")
	return strings.TrimSpace(strings.TrimPrefix(line, "#"))
}

// All returns the built-in mappings, by name.
func All() []Shipped {
	entries, err := programs.ReadDir("programs")
	if err != nil {
		panic("mapping: " + err.Error()) // cannot happen: tests load all programs
	}
	var all []Shipped
	for _, e := range entries {
		source, err := programs.ReadFile("programs/" + e.Name())
		if err != nil {
			panic("mapping: " + err.Error())
		}
		all = append(all, Shipped{Name: strings.TrimSuffix(e.Name(), ".jq"), Source: string(source)})
	}
	return all
}

// Load compiles a built-in mapping, by name, or a file. A file with the name of a built-in mapping
// needs a directory, as in "./codehost-events".
func Load(name string) (*Program, error) {
	all := All()
	if i := slices.IndexFunc(all, func(s Shipped) bool { return s.Name == name }); i >= 0 {
		return Compile(name, all[i].Source, Limits{})
	}
	source, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		names := make([]string, len(all))
		for i, s := range all {
			names[i] = s.Name
		}
		return nil, fmt.Errorf("mapping %s: no such file; built-in mappings: %s: %w",
			name, strings.Join(names, ", "), err)
	}
	if err != nil {
		return nil, fmt.Errorf("mapping: %w", err)
	}
	return Compile(name, string(source), Limits{})
}

// Compile compiles a program. Zero limits select the defaults.
func Compile(name, source string, limits Limits) (*Program, error) {
	library, err := gojq.Parse(prelude)
	if err != nil {
		return nil, fmt.Errorf("mapping prelude: %w", err)
	}
	query, err := gojq.Parse(source)
	if err != nil {
		if syntax, ok := errors.AsType[*gojq.ParseError](err); ok {
			line := 1 + strings.Count(source[:min(max(syntax.Offset-1, 0), len(source))], "\n")
			return nil, fmt.Errorf("mapping %s: line %d: %w", name, line, err)
		}
		return nil, fmt.Errorf("mapping %s: %w", name, err)
	}
	jsonLD, err := readsJSONLD(query.Meta)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", name, err)
	}
	query.FuncDefs = append(slices.Clone(library.FuncDefs), query.FuncDefs...)
	platforms := identity.Default()
	code, err := gojq.Compile(query,
		gojq.WithVariables([]string{"$file", "$line", "$received"}),
		gojq.WithFunction("noreply", 0, 0, func(v any, _ []any) any { return noReply(platforms, v) }),
		gojq.WithFunction("profile_username", 1, 1,
			func(v any, args []any) any { return profileUsername(platforms, v, args[0]) }),
		gojq.WithFunction("company_slug", 0, 0, func(v any, _ []any) any { return companySlug(platforms, v) }),
		gojq.WithFunction("unix_time", 0, 0, func(v any, _ []any) any { return unixTime(v) }),
		gojq.WithFunction("iso_date", 0, 0, func(v any, _ []any) any { return isoDate(v) }),
	)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", name, err)
	}
	sum := sha256.Sum256([]byte(source))
	return &Program{
		name:   name,
		sum:    hex.EncodeToString(sum[:]),
		code:   code,
		limits: limits.withDefaults(),
		jsonLD: jsonLD,
	}, nil
}

// readsJSONLD returns whether a program's module directive declares JSON-LD input.
func readsJSONLD(meta *gojq.ConstObject) (bool, error) {
	if meta == nil {
		return false, nil
	}
	for name, v := range meta.ToValue() {
		if name == "input" && v != "json-ld" {
			return false, fmt.Errorf(`module: input must be "json-ld" or absent, not %v`, v)
		}
		if name == "input" {
			return true, nil
		}
	}
	return false, nil
}

// ReadsLists reports whether the program reads a top-level array as one object: a JSON-LD document
// may be an array whose nodes refer to each other.
func (p *Program) ReadsLists() bool { return p.jsonLD }

// Sum returns the SHA-256 of the program's source, in hexadecimal.
func (p *Program) Sum() string { return p.sum }

// Name returns the name that the program was loaded with.
func (p *Program) Name() string { return p.name }

// Map implements [convert.Mapper].
func (p *Program) Map(ctx context.Context, object convert.Object) (records []convert.Mapped, err error) {
	input, bad := parse(object.Raw)
	if bad != nil {
		return nil, bad
	}
	defer func() {
		// A panic in the interpreter must only affect this object.
		if r := recover(); r != nil {
			records, err = nil, p.failure("panicked: %s", describePanic(r))
		}
	}()
	deadlineCtx, cancel := context.WithTimeout(ctx, p.limits.Deadline)
	defer cancel()
	if p.jsonLD {
		switch input.(type) {
		case []any, map[string]any:
			input = jsonld.Normalize(input)
		default:
			return nil, p.failure("expects a node or an array of nodes, not %s", gojq.TypeOf(input))
		}
	}
	outputs := p.code.RunWithContext(deadlineCtx, input, object.File, int(object.Number),
		object.Received.UTC().Format(time.RFC3339))
	bytes := 0
	for {
		v, ok := outputs.Next()
		if !ok {
			return records, nil
		}
		if runErr, ok := v.(error); ok {
			if halt, ok := errors.AsType[*gojq.HaltError](runErr); ok && halt.Value() == nil {
				return records, nil
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if deadlineCtx.Err() != nil {
				return nil, p.failure("timed out after %s", p.limits.Deadline)
			}
			return nil, p.failure("failed: %s", explain(runErr))
		}
		mapped, bad := p.record(v)
		if bad != nil {
			return nil, bad
		}
		records = append(records, mapped)
		bytes += len(mapped.JSON)
		if len(records) > p.limits.Records {
			return nil, p.failure("returned more than %d records", p.limits.Records)
		}
		if bytes > p.limits.Bytes {
			return nil, p.failure("returned more than %d bytes", p.limits.Bytes)
		}
	}
}

// record decodes {"kind": ..., "record": {...}}.
func (p *Program) record(v any) (convert.Mapped, *record.ValidationError) {
	output, ok := v.(map[string]any)
	if !ok {
		return convert.Mapped{}, p.failure("returned %s, {kind, record} is required", gojq.TypeOf(v))
	}
	for name := range output {
		if name != "kind" && name != "record" {
			return convert.Mapped{}, p.failure("returned an object with the field %s, {kind, record} is required",
				quoteName(name))
		}
	}
	name, ok := output["kind"].(string)
	switch kind := record.Kind(name); {
	case kind == record.KindErasure:
		bad := p.failure("returned an erasure; ingest erasures with `muster ingest erasure`")
		bad.Kind = record.KindErasure // the object identifies the person to be erased
		return convert.Mapped{}, bad
	case !ok || !slices.Contains(record.Kinds(), kind):
		return convert.Mapped{}, p.failure("returned a record of unknown kind %s; kinds: %s", quoteName(name),
			kindNames())
	}
	body, ok := output["record"].(map[string]any)
	if !ok {
		return convert.Mapped{}, p.failure("returned a record that is %s, not an object", gojq.TypeOf(output["record"]))
	}
	text, err := gojq.Marshal(body)
	if err != nil {
		return convert.Mapped{}, p.failure("returned a value that cannot be encoded as JSON")
	}
	return convert.Mapped{Kind: record.Kind(name), JSON: text}, nil
}

func kindNames() string {
	names := make([]string, 0, len(record.Kinds()))
	for _, k := range record.Kinds() {
		if k != record.KindErasure {
			names = append(names, string(k))
		}
	}
	return strings.Join(names, ", ")
}

func (p *Program) failure(format string, args ...any) *record.ValidationError {
	return &record.ValidationError{
		Kind: convert.SourceObject, Code: record.CodeMapping,
		Reason: "is not mapped: " + p.name + " " + fmt.Sprintf(format, args...),
	}
}

func noReply(platforms *identity.Platforms, v any) any {
	address, ok := v.(string)
	if !ok {
		return nil
	}
	id, username, ok := platforms.NoReply(address)
	if !ok {
		return nil
	}
	account := map[string]any{"username": username, "user_id": nil}
	if id > 0 {
		account["user_id"] = int(id)
	}
	return account
}

func profileUsername(platforms *identity.Platforms, v, platform any) any {
	link, ok := v.(string)
	if !ok {
		return nil
	}
	if found, username, err := platforms.ParseAny(link); err == nil && found == platform {
		return username
	}
	return nil
}

func companySlug(platforms *identity.Platforms, v any) any {
	link, ok := v.(string)
	if !ok {
		return nil
	}
	if slug, err := platforms.ParseCompany(link); err == nil {
		return slug
	}
	return nil
}

func isoDate(v any) any {
	text, ok := v.(string)
	if !ok {
		return nil
	}
	if text, err := record.NormalizeDate(text); err == nil {
		return text
	}
	return nil
}

func unixTime(v any) any {
	text, _ := v.(string)
	version, err := record.ParseVersion(text)
	if err != nil {
		return errors.New("unix_time cannot be applied to: " + gojq.TypeOf(v))
	}
	return int(version.Time().Unix())
}
