package native

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// sharedVariant is the variant of a Dynamic column that holds, as strings, the values of types without their own
// variant.
const sharedVariant = "SharedVariant"

func parseDynamicType(base string, parts []string, name string) (*columnType, error) {
	switch base {
	case "Variant":
		t, err := nested(kindVariant, parts)
		if err != nil {
			return nil, err
		}
		t.stateful = true
		return t, nil
	case "Dynamic":
		return &columnType{kind: kindDynamic, stateful: true}, nil
	case "JSON":
		return parseJSONType(parts)
	}
	return nil, fmt.Errorf("native: type %s is not supported in the revision requested by the client", name)
}

// parseJSONType returns the type with its typed paths, which are written in the order of their names.
func parseJSONType(parts []string) (*columnType, error) {
	type path struct {
		name string
		t    *columnType
	}
	var typed []path
	for _, part := range parts {
		upper := strings.ToUpper(part)
		if strings.HasPrefix(upper, "SKIP ") ||
			strings.HasPrefix(upper, "MAX_DYNAMIC_") && strings.Contains(part, "=") {
			continue
		}
		name, typeName := cutName(part)
		t, err := parseType(typeName)
		if err != nil {
			return nil, err
		}
		typed = append(typed, path{name, t})
	}
	slices.SortFunc(typed, func(a, b path) int { return cmp.Compare(a.name, b.name) })
	t := &columnType{kind: kindJSON, stateful: true}
	for _, p := range typed {
		t.elements = append(t.elements, p.t)
	}
	return t, nil
}

// skipVariantPrefix skips the mode of the discriminators and the prefixes of the elements.
func (r *reader) skipVariantPrefix(elements []*columnType) (*columnType, error) {
	if mode := r.uint64(); mode != 0 && !r.failed {
		return nil, fmt.Errorf("variant discriminators mode %d", mode)
	}
	elements, err := r.skipPrefixes(elements)
	if err != nil {
		return nil, err
	}
	return &columnType{kind: kindVariant, width: 1, null: 0xff, elements: elements}, nil
}

// Serialization versions of Dynamic and JSON columns.
const (
	dynamicV1        = 1
	dynamicV2        = 2
	dynamicFlattened = 3

	jsonV1        = 0
	jsonString    = 1
	jsonV2        = 2
	jsonFlattened = 3
)

func (r *reader) skipDynamicPrefix() (*columnType, error) {
	version := r.uint64()
	switch version {
	case dynamicV1:
		r.uvarint() // max_types
	case dynamicV2, dynamicFlattened:
	default:
		if r.failed {
			return nil, ErrTruncated
		}
		return nil, fmt.Errorf("dynamic serialization version %d", version)
	}
	count := r.uvarint()
	if count > uint64(len(r.data)) {
		r.fail()
		return nil, ErrTruncated
	}
	names := make([]string, count)
	for i := range names {
		names[i] = r.string()
	}
	if version != dynamicFlattened {
		names = append(names, sharedVariant)
		slices.Sort(names)
	}
	elements := make([]*columnType, len(names))
	for i, name := range names {
		if name == sharedVariant {
			elements[i] = &columnType{kind: kindString}
			continue
		}
		var err error
		if elements[i], err = typeOf(name); err != nil {
			return nil, err
		}
	}
	if version != dynamicFlattened {
		return r.skipVariantPrefix(elements)
	}
	elements, err := r.skipPrefixes(elements)
	if err != nil {
		return nil, err
	}
	t := &columnType{kind: kindVariant, width: 8, null: uint64(len(elements)), elements: elements}
	switch {
	case len(elements) <= 0xff:
		t.width = 1
	case len(elements) <= 0xffff:
		t.width = 2
	case len(elements) <= 0xffffffff:
		t.width = 4
	}
	return t, nil
}

func (r *reader) skipVariantData(t *columnType, rows int) error {
	counts := make([]int, len(t.elements))
	if uint64(rows)*uint64(t.width) > uint64(len(r.data)-r.pos) {
		r.fail()
		return nil
	}
	for range rows {
		var discriminator uint64
		for i := range t.width {
			discriminator |= uint64(r.byte()) << (8 * i)
		}
		switch {
		case discriminator == t.null:
		case discriminator < uint64(len(counts)):
			counts[discriminator]++
		default:
			return fmt.Errorf("discriminator %d of %d variants", discriminator, len(counts))
		}
	}
	for i, element := range t.elements {
		if err := r.skipData(element, counts[i]); err != nil {
			return err
		}
	}
	return nil
}

// skipJSONPrefix returns the column as a tuple of its paths.
func (r *reader) skipJSONPrefix(t *columnType) (*columnType, error) {
	version := r.uint64()
	switch version {
	case jsonString:
		return &columnType{kind: kindString}, nil
	case jsonV1:
		r.uvarint() // max_dynamic_paths
	case jsonV2, jsonFlattened:
	default:
		return nil, fmt.Errorf("JSON serialization version %d", version)
	}
	if r.failed {
		return nil, ErrTruncated
	}
	count := r.uvarint()
	if count > uint64(len(r.data)) {
		r.fail()
		return nil, ErrTruncated
	}
	for range count {
		r.skipString()
	}
	elements, err := r.skipPrefixes(t.elements)
	if err != nil {
		return nil, err
	}
	for range count {
		element, err := r.skipDynamicPrefix()
		if err != nil {
			return nil, err
		}
		elements = append(elements, element)
	}
	if version != jsonFlattened {
		// Paths above the limit, with binary values.
		pair := &columnType{kind: kindTuple, elements: []*columnType{{kind: kindString}, {kind: kindString}}}
		elements = append(elements, &columnType{kind: kindArray, elements: []*columnType{pair}})
	}
	if len(elements) == 0 {
		return &columnType{kind: kindFixed}, nil
	}
	return &columnType{kind: kindTuple, elements: elements}, nil
}
