package native

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

type kind uint8

const (
	kindFixed kind = iota // width bytes for each value
	kindString
	kindNullable
	kindArray
	kindTuple
	kindLowCardinality
	kindVariant
	kindDynamic
	kindJSON
)

// columnType is a parsed type, as far as it determines the size of column data.
type columnType struct {
	kind     kind
	width    int // of a value; kindVariant: of a discriminator
	elements []*columnType
	stateful bool   // it or an element has a state prefix
	null     uint64 // kindVariant: the discriminator of NULL
}

var fixedWidths = map[string]int{
	"Nothing": 1, "Bool": 1, "Int8": 1, "UInt8": 1, "Enum8": 1,
	"Int16": 2, "UInt16": 2, "Enum16": 2, "Date": 2, "BFloat16": 2,
	"Int32": 4, "UInt32": 4, "Float32": 4, "Date32": 4, "DateTime": 4, "IPv4": 4, "Decimal32": 4, "Time": 4,
	"Int64": 8, "UInt64": 8, "Float64": 8, "DateTime64": 8, "Time64": 8, "Decimal64": 8,
	"Int128": 16, "UInt128": 16, "UUID": 16, "IPv6": 16, "Decimal128": 16,
	"Int256": 32, "UInt256": 32, "Decimal256": 32,
}

// geometric types are aliases of nested types.
var geometric = map[string]string{
	"Point": "Tuple(Float64, Float64)", "Ring": "Array(Point)", "LineString": "Array(Point)",
	"Geometry": "Variant(LineString, MultiLineString, MultiPolygon, Point, Polygon, Ring)",
	"Polygon":  "Array(Ring)", "MultiLineString": "Array(LineString)", "MultiPolygon": "Array(Polygon)",
}

// Limits of the cache of types. Callers can create any number of names, for example with enums, FixedString(N) and
// tuples.
const (
	maxCachedTypes = 4096
	maxCachedName  = 256 // bytes
)

// types caches parsed types by name. It is cleared when it is full; long names are not cached.
var types struct {
	byName sync.Map
	count  atomic.Int64
}

func typeOf(name string) (*columnType, error) {
	if t, ok := types.byName.Load(name); ok {
		return t.(*columnType), nil
	}
	t, err := parseType(name)
	if err != nil || len(name) > maxCachedName {
		return t, err
	}
	if types.count.Add(1) > maxCachedTypes { // otherwise names of callers would displace muster's
		types.byName.Clear()
		types.count.Store(1)
	}
	types.byName.Store(name, t)
	return t, nil
}

func parseType(name string) (*columnType, error) {
	name = strings.TrimSpace(name)
	base, args := name, ""
	if i := strings.IndexByte(name, '('); i >= 0 && strings.HasSuffix(name, ")") {
		base, args = name[:i], name[i+1:len(name)-1]
	}
	if width, ok := fixedWidths[base]; ok {
		return &columnType{kind: kindFixed, width: width}, nil
	}
	if strings.HasPrefix(base, "Interval") {
		return &columnType{kind: kindFixed, width: 8}, nil
	}
	if alias, ok := geometric[base]; ok {
		return parseType(alias)
	}
	parts := splitArguments(args)
	switch base {
	case "String":
		return &columnType{kind: kindString}, nil
	case "FixedString":
		n, err := strconv.Atoi(strings.TrimSpace(args))
		if err != nil {
			return nil, fmt.Errorf("native: type %s: %w", name, err)
		}
		return &columnType{kind: kindFixed, width: n}, nil
	case "Decimal":
		precision, err := strconv.Atoi(strings.TrimSpace(parts[0]))
		if err != nil {
			return nil, fmt.Errorf("native: type %s: %w", name, err)
		}
		return &columnType{kind: kindFixed, width: decimalWidth(precision)}, nil
	case "Nullable":
		return nested(kindNullable, parts)
	case "Array":
		return nested(kindArray, parts)
	case "LowCardinality":
		return nested(kindLowCardinality, parts)
	case "Tuple":
		return nested(kindTuple, withoutNames(parts))
	case "Map":
		return arrayOfTuple(parts)
	case "Nested":
		return arrayOfTuple(withoutNames(parts))
	case "SimpleAggregateFunction":
		return parseType(parts[len(parts)-1])
	}
	return parseDynamicType(base, parts, name)
}

func decimalWidth(precision int) int {
	switch {
	case precision <= 9:
		return 4
	case precision <= 18:
		return 8
	case precision <= 38:
		return 16
	}
	return 32
}

func nested(k kind, names []string) (*columnType, error) {
	t := &columnType{kind: k}
	for _, name := range names {
		element, err := parseType(name)
		if err != nil {
			return nil, err
		}
		t.elements = append(t.elements, element)
		t.stateful = t.stateful || element.stateful
	}
	t.stateful = t.stateful || k == kindLowCardinality
	return t, nil
}

func arrayOfTuple(names []string) (*columnType, error) {
	tuple, err := nested(kindTuple, names)
	if err != nil {
		return nil, err
	}
	return &columnType{kind: kindArray, elements: []*columnType{tuple}, stateful: tuple.stateful}, nil
}

// splitArguments splits at commas outside of parentheses and quotes.
func splitArguments(s string) []string {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	var parts []string
	depth, start := 0, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '(':
			depth++
		case ')':
			depth--
		case '\'', '`', '"':
			for i++; i < len(s) && s[i] != c; i++ {
				if s[i] == '\\' {
					i++
				}
			}
		case ',':
			if depth == 0 {
				parts = append(parts, strings.TrimSpace(s[start:i]))
				start = i + 1
			}
		}
	}
	return append(parts, strings.TrimSpace(s[start:]))
}

// withoutNames returns the types of the elements of a named tuple ("a UInt8").
func withoutNames(parts []string) []string {
	out := make([]string, len(parts))
	for i, part := range parts {
		_, out[i] = cutName(part)
	}
	return out
}

// cutName splits "name Type". An unnamed element has no space outside of its parentheses.
func cutName(part string) (name, typeName string) {
	if part == "" {
		return "", ""
	}
	if c := part[0]; c == '`' || c == '"' {
		for i := 1; i < len(part); i++ {
			switch part[i] {
			case '\\':
				i++
			case c:
				return unquote(part[1:i]), strings.TrimSpace(part[i+1:])
			}
		}
	}
	space, paren := strings.IndexByte(part, ' '), strings.IndexByte(part, '(')
	if space < 0 || paren >= 0 && paren < space {
		return "", part
	}
	return part[:space], strings.TrimSpace(part[space+1:])
}

func unquote(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
