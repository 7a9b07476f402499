package native

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAppendBlocks_AddsFramingOfRevision(t *testing.T) {
	src := AppendHeader(nil, []string{"a", "b"}, []string{"UInt16", "String"}, 0)
	src[1] = 2 // rows
	src = src[:2]
	src = appendString(appendString(src, "a"), "UInt16")
	src = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(src, 7), 8)
	src = appendString(appendString(src, "b"), "String")
	src = appendString(appendString(src, "x"), "")

	want := append([]byte{}, blockInfo...)
	want = append(want, 2, 2)
	want = append(appendString(appendString(want, "a"), "UInt16"), 0)
	want = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(want, 7), 8)
	want = append(appendString(appendString(want, "b"), "String"), 0)
	want = appendString(appendString(want, "x"), "")

	got, err := AppendBlocks(nil, src, MaxRevision)
	require.NoError(t, err)
	require.Equal(t, want, got)

	twice, err := AppendBlocks(nil, append(append([]byte{}, src...), src...), MaxRevision)
	require.NoError(t, err)
	require.Equal(t, append(append([]byte{}, want...), want...), twice)

	for n := 1; n < len(src); n++ {
		_, err := AppendBlocks(nil, src[:n], MaxRevision)
		require.Error(t, err, "cut at %d", n)
	}
	same, err := AppendBlocks(nil, src, 0)
	require.NoError(t, err)
	require.Equal(t, src, same)
}

func TestParseType_ReturnsWidthsAndElements(t *testing.T) {
	for name, want := range map[string]columnType{
		"Decimal(9, 2)":                        {kind: kindFixed, width: 4},
		"Decimal(38, 10)":                      {kind: kindFixed, width: 16},
		"DateTime64(3, 'UTC')":                 {kind: kindFixed, width: 8},
		"Enum8('a, b(' = 1)":                   {kind: kindFixed, width: 1},
		"FixedString(12)":                      {kind: kindFixed, width: 12},
		"IntervalDay":                          {kind: kindFixed, width: 8},
		"SimpleAggregateFunction(sum, UInt64)": {kind: kindFixed, width: 8},
	} {
		got, err := parseType(name)
		require.NoError(t, err, name)
		require.Equal(t, want, *got, name)
	}
	tuple, err := parseType("Tuple(`a b` Array(UInt8), c LowCardinality(Nullable(String)))")
	require.NoError(t, err)
	require.Equal(t, kindTuple, tuple.kind)
	require.Equal(t, kindArray, tuple.elements[0].kind)
	require.Equal(t, kindLowCardinality, tuple.elements[1].kind)
	require.True(t, tuple.stateful)
	for _, name := range []string{"AggregateFunction(sum, UInt64)", "Nonsense", "FixedString(x)"} {
		_, err := parseType(name)
		require.Error(t, err, name)
	}
}

func TestTypeOf_CacheIsLimited(t *testing.T) {
	var names []string
	for n := range 2 * maxCachedTypes {
		names = append(names, fmt.Sprintf("FixedString(%d)", n+1))
	}
	for n := range 100 {
		names = append(names, fmt.Sprintf("Tuple(FixedString(%d), Enum8('%s' = 1))", n+1, strings.Repeat("a", 100_000)))
	}
	var got []byte
	for _, name := range names {
		wide, err := parseType(name)
		require.NoError(t, err)
		block := append(appendString(appendString([]byte{1, 1}, "c"), name), make([]byte, width(wide))...)
		got, err = AppendBlocks(got[:0], block, 0)
		require.NoError(t, err)
		require.True(t, bytes.Equal(block, got), "%.40s", name)
	}
	cached := 0
	types.byName.Range(func(name, _ any) bool {
		cached++
		require.LessOrEqual(t, len(name.(string)), maxCachedName)
		return true
	})
	require.LessOrEqual(t, cached, maxCachedTypes)
	require.EqualValues(t, cached, types.count.Load())
	_, err := typeOf("FixedString(4097)")
	require.NoError(t, err)
	_, ok := types.byName.Load("FixedString(4097)")
	require.True(t, ok, "a new name is cached although the cache was full")
}

// width returns the size of a value of a type with fixed size, in bytes.
func width(t *columnType) int {
	n := t.width
	for _, e := range t.elements {
		n += width(e)
	}
	return n
}

func FuzzAppendBlocks(f *testing.F) {
	f.Add(AppendHeader(nil, []string{"a"}, []string{"Array(LowCardinality(String))"}, 0))
	f.Add([]byte{1, 1, 1, 'a', 4, 'J', 'S', 'O', 'N', 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 'p'})
	f.Add([]byte{1, 2, 1, 'a', 7, 'D', 'y', 'n', 'a', 'm', 'i', 'c', 1, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		// No input may panic, hang or grow without bound.
		out, err := AppendBlocks(nil, data, MaxRevision)
		if err == nil && len(out) < len(data) {
			t.Fatalf("input of %d bytes became %d bytes", len(data), len(out))
		}
	})
}
