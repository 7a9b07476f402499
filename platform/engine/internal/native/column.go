package native

import (
	"errors"
	"fmt"
)

// skipColumn advances past a column's state prefix and data.
func (r *reader) skipColumn(t *columnType, rows int) error {
	t, err := r.skipPrefix(t)
	if err != nil {
		return err
	}
	return r.skipData(t, rows)
}

// skipPrefix advances past the state prefix, which all nested types write before any data. It returns the type
// completed with the information of the prefix.
func (r *reader) skipPrefix(t *columnType) (*columnType, error) {
	switch t.kind {
	case kindLowCardinality:
		if version := r.uint64(); version != 1 && !r.failed {
			return nil, fmt.Errorf("LowCardinality keys version %d", version)
		}
	case kindNullable, kindArray, kindTuple:
		if !t.stateful {
			return t, nil
		}
		elements, err := r.skipPrefixes(t.elements)
		if err != nil {
			return nil, err
		}
		return &columnType{kind: t.kind, elements: elements}, nil
	case kindVariant:
		return r.skipVariantPrefix(t.elements)
	case kindDynamic:
		return r.skipDynamicPrefix()
	case kindJSON:
		return r.skipJSONPrefix(t)
	}
	return t, nil
}

func (r *reader) skipPrefixes(types []*columnType) ([]*columnType, error) {
	out := make([]*columnType, len(types))
	for i, t := range types {
		var err error
		if out[i], err = r.skipPrefix(t); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *reader) skipData(t *columnType, rows int) error {
	if rows < 0 || rows > len(r.data) && t.kind != kindTuple {
		r.fail()
		return nil
	}
	switch t.kind {
	case kindFixed:
		r.skip(uint64(rows) * uint64(t.width))
	case kindString:
		for range rows {
			n := r.uvarint()
			if n > uint64(len(r.data)-r.pos) {
				r.fail()
				return nil
			}
			r.pos += int(n)
		}
	case kindNullable:
		r.skip(uint64(rows))
		return r.skipData(t.elements[0], rows)
	case kindArray:
		if rows == 0 {
			return nil
		}
		r.skip(uint64(rows-1) * 8)
		return r.skipData(t.elements[0], int(r.uint64()))
	case kindTuple:
		if len(t.elements) == 0 {
			r.skip(uint64(rows)) // Tuple() has one byte for each row
		}
		for _, element := range t.elements {
			if err := r.skipData(element, rows); err != nil {
				return err
			}
		}
	case kindLowCardinality:
		return r.skipLowCardinality(t.elements[0], rows)
	case kindVariant:
		return r.skipVariantData(t, rows)
	default:
		return errors.New("data before its prefix")
	}
	return nil
}

// Flags in the second word of a LowCardinality column; its low byte is the width of the indexes.
const (
	lowCardinalityGlobal     = 1 << 8
	lowCardinalityAdditional = 1 << 9
)

func (r *reader) skipLowCardinality(element *columnType, rows int) error {
	if rows == 0 {
		return nil
	}
	flags := r.uint64()
	if flags&lowCardinalityGlobal != 0 {
		return errors.New("LowCardinality with a global dictionary")
	}
	width := uint64(1) << (flags & 0xff)
	if width > 8 {
		return fmt.Errorf("LowCardinality with %d index bytes", width)
	}
	if element.kind == kindNullable {
		element = element.elements[0] // the dictionary holds plain values; the first one represents NULL
	}
	if flags&lowCardinalityAdditional != 0 {
		if err := r.skipData(element, int(r.uint64())); err != nil {
			return err
		}
	}
	indexes := r.uint64()
	if indexes > uint64(len(r.data)) {
		r.fail()
		return nil
	}
	r.skip(indexes * width)
	return nil
}
