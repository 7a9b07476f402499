package bulk

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/event"
)

// ResultWriter writes the answers of a job as NDJSON, or as CSV if it has fields.
type ResultWriter struct {
	out       *bufio.Writer
	csv       *csv.Writer // nil: NDJSON
	operation event.BulkOperation
	fields    []string
	paths     [][]string
}

// writeBytes is the size of a write.
const writeBytes = 64 << 10

// NewResultWriter returns a writer to out.
func NewResultWriter(out io.Writer, operation event.BulkOperation, fields []string) *ResultWriter {
	w := &ResultWriter{out: bufio.NewWriterSize(out, writeBytes), operation: operation, fields: fields}
	if len(fields) > 0 {
		w.csv = csv.NewWriter(w.out)
	}
	for _, f := range fields {
		w.paths = append(w.paths, strings.Split(f, "."))
	}
	return w
}

// Begin writes the header of CSV.
func (w *ResultWriter) Begin() error {
	if w.csv == nil {
		return nil
	}
	return w.csv.Write(append([]string{referenceColumn, "detail", "miss_reason"}, w.fields...))
}

// Write writes an answer, a JSON object.
func (w *ResultWriter) Write(body []byte) error {
	if w.csv == nil {
		if _, err := w.out.Write(body); err != nil {
			return err
		}
		return w.out.WriteByte('\n')
	}
	var a struct {
		Reference  string           `json:"reference"`
		Detail     string           `json:"detail"`
		MissReason string           `json:"miss_reason"`
		Person     jsontext.Value   `json:"person"`
		Company    jsontext.Value   `json:"company"`
		Socials    []jsontext.Value `json:"socials"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	root := a.Person
	switch w.operation {
	case event.BulkPersonEnrich:
	case event.BulkCompanyEnrich:
		root = a.Company
	case event.BulkDiscover:
		var err error
		if root, err = byPlatform(a.Socials); err != nil {
			return err
		}
	}
	tree := &node{raw: root}
	record := make([]string, 0, len(w.paths)+3)
	record = append(record, safeCell(a.Reference), safeCell(a.Detail), a.MissReason)
	for _, path := range w.paths {
		text, err := cell(tree.at(path, nil))
		if err != nil {
			return err
		}
		record = append(record, text)
	}
	return w.csv.Write(record)
}

// Flush writes what is buffered.
func (w *ResultWriter) Flush() error {
	if w.csv != nil {
		w.csv.Flush()
		if err := w.csv.Error(); err != nil {
			return err
		}
	}
	return w.out.Flush()
}

// byPlatform returns discovered profiles as an object by platform.
func byPlatform(socials []jsontext.Value) (jsontext.Value, error) {
	out := make(map[string]jsontext.Value, len(socials))
	for _, s := range socials {
		var p struct {
			Platform string `json:"platform"`
		}
		if err := json.Unmarshal(s, &p); err != nil {
			return nil, fmt.Errorf("decode answer: %w", err)
		}
		out[p.Platform] = s
	}
	return json.Marshal(out, json.Deterministic(true))
}

// node is a JSON value that is decoded as far as it is asked for. Numbers keep all digits.
type node struct {
	raw     jsontext.Value
	decoded bool
	members map[string]*node
	items   []*node
}

// decode decodes the members or items of the value.
func (n *node) decode() {
	if n.decoded {
		return
	}
	n.decoded = true
	switch n.raw.Kind() {
	case '{':
		var raw map[string]jsontext.Value
		if json.Unmarshal(n.raw, &raw) != nil {
			return
		}
		n.members = make(map[string]*node, len(raw))
		for name, value := range raw {
			n.members[name] = &node{raw: value}
		}
	case '[':
		var raw []jsontext.Value
		if json.Unmarshal(n.raw, &raw) != nil {
			return
		}
		for _, value := range raw {
			n.items = append(n.items, &node{raw: value})
		}
	}
}

// at appends the values at a path to out, one for each element of the lists on the way.
func (n *node) at(path []string, out []*node) []*node {
	n.decode()
	for _, item := range n.items {
		out = item.at(path, out)
	}
	if len(path) == 0 || n.members[path[0]] == nil {
		return out
	}
	if value := n.members[path[0]]; len(path) > 1 {
		return value.at(path[1:], out)
	} else if value.raw.Kind() != 'n' {
		out = append(out, value)
	}
	return out
}

// cell returns values as a cell: texts and lists of texts separated by semicolons, other lists and objects as JSON.
func cell(values []*node) (string, error) {
	var texts []string
	raw := make([]jsontext.Value, len(values))
	plain := true
	for i, v := range values {
		v.decode()
		elements := []*node{v}
		if v.raw.Kind() == '[' {
			elements = v.items
		}
		for _, e := range elements {
			if e.raw.Kind() != '"' {
				plain = false
				break
			}
			text, err := e.text()
			if err != nil {
				return "", err
			}
			texts = append(texts, text)
		}
		raw[i] = v.raw
	}
	switch {
	case len(values) == 0:
		return "", nil
	case plain:
		return safeCell(strings.Join(texts, ";")), nil
	case len(values) == 1:
		return string(raw[0]), nil
	}
	list, err := json.Marshal(raw, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("encode cell: %w", err)
	}
	return string(list), nil
}

func (n *node) text() (string, error) {
	var text string
	if err := json.Unmarshal(n.raw, &text); err != nil {
		return "", fmt.Errorf("decode answer: %w", err)
	}
	return text, nil
}

// safeCell returns a text that no spreadsheet takes for a formula (OWASP, CSV injection).
func safeCell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n＝＋－＠", []rune(text)[0]) {
		return "'" + text
	}
	return text
}
