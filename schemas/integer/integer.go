// Package integer parses integers as in JSON Schema (2020-12): any number whose fraction is zero, such as 10,
// 10.0 and 1e1. Many exporters write integer columns with missing values as floating-point numbers.
package integer

import (
	"bytes"
	"errors"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Parse parses a JSON number. ok is false if it has a fraction or does not fit.
func Parse(number []byte) (n int64, ok bool) {
	if n, err := strconv.ParseInt(string(number), 10, 64); err == nil {
		return n, true
	}
	mantissa, exponent, scientific := bytes.Cut(bytes.ToLower(number), []byte("e"))
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	digits := slices.Concat(whole, fraction)
	significant := bytes.TrimRight(digits, "0")
	if len(bytes.TrimLeft(significant, "-")) == 0 {
		return 0, len(digits) > 0
	}
	shift := len(digits) - len(significant) - len(fraction)
	if scientific {
		e, err := strconv.ParseInt(string(bytes.TrimPrefix(exponent, []byte("+"))), 10, 32)
		if err != nil {
			return 0, false
		}
		shift += int(e)
	}
	if shift < 0 || shift > 19 { // more than an int64 holds
		return 0, false
	}
	n, err := strconv.ParseInt(string(significant)+"0000000000000000000"[:shift], 10, 64)
	return n, err == nil
}

// Rewriter records the integers in a decoded text that Go does not decode as such.
type Rewriter struct{ found []replacement }

// replacement is the position of a number and its integer form.
type replacement struct {
	begin, end int
	text       []byte
}

// Option makes [json.Unmarshal] accept such numbers for int and int64. The input must be a complete text, not
// a stream.
func (r *Rewriter) Option() json.Options { return json.WithUnmarshalers(r.Unmarshalers()) }

// Unmarshalers returns the unmarshalers of Option, to be combined with others.
func (r *Rewriter) Unmarshalers() *json.Unmarshalers {
	return json.JoinUnmarshalers(
		json.UnmarshalFromFunc(func(d *jsontext.Decoder, v *int64) error { return read(r, d, v) }),
		json.UnmarshalFromFunc(func(d *jsontext.Decoder, v *int) error { return read(r, d, v) }),
	)
}

// Replace records that the value just read by d, of length bytes, is to be replaced by text.
func (r *Rewriter) Replace(d *jsontext.Decoder, length int, text []byte) {
	at := int(d.InputOffset())
	r.found = append(r.found, replacement{at - length, at, text})
}

func read[T int | int64](r *Rewriter, d *jsontext.Decoder, v *T) error {
	if d.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	text := bytes.TrimLeft(d.UnreadBuffer(), " \t\r\n:,")
	if end := bytes.IndexFunc(text, func(c rune) bool { return c != '-' && (c < '0' || c > '9') }); end < 0 ||
		!bytes.ContainsRune([]byte(".eE"), rune(text[end])) {
		return errors.ErrUnsupported // It is an integer.
	}
	end := bytes.IndexFunc(text, func(c rune) bool { return !bytes.ContainsRune([]byte("+-.0123456789eE"), c) })
	if end < 0 {
		end = len(text)
	}
	n, ok := Parse(text[:end])
	if !ok || int64(T(n)) != n {
		return errors.ErrUnsupported // The default unmarshaler reports the error.
	}
	number, err := d.ReadValue()
	if err != nil {
		return err
	}
	*v = T(n)
	r.Replace(d, len(number), strconv.AppendInt(nil, n, 10))
	return nil
}

// Found reports whether any were recorded.
func (r *Rewriter) Found() bool { return len(r.found) > 0 }

// Rewrite returns the decoded text with its integers rewritten.
func (r *Rewriter) Rewrite(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	last := 0
	for _, p := range r.found {
		out = append(append(out, raw[last:p.begin]...), p.text...)
		last = p.end
	}
	return append(out, raw[last:]...)
}
