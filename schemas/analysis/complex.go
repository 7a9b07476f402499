package analysis

import "unicode"

// complexContext is the line breaking class SA (Unicode 9): Thai, Lao, Myanmar, Khmer, Tai Le, New Tai Lue,
// Tai Tham, Tai Viet and Ahom, whose words can only be separated with a dictionary.
//
//nolint:gochecknoglobals // a table, never written
var complexContext = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x0e01, Hi: 0x0e3a, Stride: 1}, {Lo: 0x0e40, Hi: 0x0e4e, Stride: 1},
		{Lo: 0x0e81, Hi: 0x0e82, Stride: 1}, {Lo: 0x0e84, Hi: 0x0e84, Stride: 1}, {Lo: 0x0e86, Hi: 0x0e8a, Stride: 1},
		{Lo: 0x0e8c, Hi: 0x0ea3, Stride: 1}, {Lo: 0x0ea5, Hi: 0x0ea5, Stride: 1}, {Lo: 0x0ea7, Hi: 0x0ebd, Stride: 1},
		{Lo: 0x0ec0, Hi: 0x0ec4, Stride: 1}, {Lo: 0x0ec6, Hi: 0x0ec6, Stride: 1}, {Lo: 0x0ec8, Hi: 0x0ecd, Stride: 1},
		{Lo: 0x0edc, Hi: 0x0edf, Stride: 1},
		{Lo: 0x1000, Hi: 0x103f, Stride: 1}, {Lo: 0x1050, Hi: 0x108f, Stride: 1}, {Lo: 0x109a, Hi: 0x109f, Stride: 1},
		{Lo: 0x1780, Hi: 0x17d3, Stride: 1}, {Lo: 0x17d7, Hi: 0x17d7, Stride: 1}, {Lo: 0x17dc, Hi: 0x17dd, Stride: 1},
		{Lo: 0x1950, Hi: 0x196d, Stride: 1}, {Lo: 0x1970, Hi: 0x1974, Stride: 1},
		{Lo: 0x1980, Hi: 0x19ab, Stride: 1}, {Lo: 0x19b0, Hi: 0x19c9, Stride: 1}, {Lo: 0x19da, Hi: 0x19da, Stride: 1},
		{Lo: 0x19de, Hi: 0x19df, Stride: 1},
		{Lo: 0x1a20, Hi: 0x1a5e, Stride: 1}, {Lo: 0x1a60, Hi: 0x1a7c, Stride: 1}, {Lo: 0x1aa0, Hi: 0x1aad, Stride: 1},
		{Lo: 0xa9e0, Hi: 0xa9ef, Stride: 1}, {Lo: 0xa9fa, Hi: 0xa9fe, Stride: 1},
		{Lo: 0xaa60, Hi: 0xaac2, Stride: 1}, {Lo: 0xaadb, Hi: 0xaadf, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x11700, Hi: 0x1171a, Stride: 1}, {Lo: 0x1171d, Hi: 0x1172b, Stride: 1},
		{Lo: 0x1173a, Hi: 0x1173b, Stride: 1}, {Lo: 0x1173f, Hi: 0x1173f, Stride: 1},
	},
}
