package mapping

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/ingest/internal/convert"
	"muster/schemas/record"
)

// maxDepth is the maximum nesting depth of a source object.
const maxDepth = 500

var errDepth = errors.New("nested too deep")

// parse parses one JSON value to jq's types: integers of any size stay exact.
func parse(raw []byte) (any, *record.ValidationError) {
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	v, err := value(d, 1)
	if err == nil {
		if _, err = d.ReadToken(); errors.Is(err, io.EOF) {
			return v, nil
		}
		if err == nil {
			return nil, &record.ValidationError{
				Kind:   convert.SourceObject,
				Code:   record.CodeSyntax,
				Reason: "is followed by a second value",
			}
		}
	}
	if errors.Is(err, errDepth) {
		return nil, &record.ValidationError{
			Kind:   convert.SourceObject,
			Code:   record.CodeTooDeep,
			Reason: fmt.Sprintf("is nested deeper than %d levels", maxDepth),
		}
	}
	return nil, record.InvalidJSON(convert.SourceObject, raw, err)
}

func value(d *jsontext.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return token.Bool(), nil
	case '"':
		return token.String(), nil
	case '0':
		return number(token.String())
	case '[':
		list := []any{}
		for d.PeekKind() != ']' {
			v, err := value(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.ReadToken()
		return list, err
	case '{':
		object := map[string]any{}
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String()
			if object[key], err = value(d, depth+1); err != nil {
				return nil, err
			}
		}
		_, err := d.ReadToken()
		return object, err
	}
	return nil, fmt.Errorf("unexpected %v", token.Kind())
}

// number parses an integer as int, or as *big.Int if it is larger, and other numbers as float64.
func number(text string) (any, error) {
	if !strings.ContainsAny(text, ".eE") {
		if n, err := strconv.Atoi(text); err == nil {
			return n, nil
		}
		if n, ok := new(big.Int).SetString(text, 10); ok {
			return n, nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return nil, fmt.Errorf("read number: %w", err)
	}
	return f, nil // overflow gives an infinity, as in jq
}
