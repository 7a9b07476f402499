package source

import (
	"encoding/base64"
	"encoding/hex"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// writerOf returns the function that appends a leaf's values as JSON, by the column's logical type.
func writerOf(t parquet.Type) func([]byte, parquet.Value) []byte {
	var annotation format.LogicalTypeValue
	if l := t.LogicalType(); l != nil {
		annotation = l.Value
	}
	switch a := annotation.(type) {
	case *format.JsonType:
		return func(out []byte, v parquet.Value) []byte {
			if !isBytes(v) {
				return writePhysical(out, v)
			}
			if text := jsontext.Value(v.ByteArray()); text.IsValid() {
				return append(out, text...)
			}
			return appendString(out, v.ByteArray())
		}
	case *format.StringType, *format.EnumType:
		return func(out []byte, v parquet.Value) []byte {
			if !isBytes(v) {
				return writePhysical(out, v)
			}
			return appendString(out, v.ByteArray())
		}
	case *format.UUIDType:
		return writeUUID
	case *format.DateType:
		return func(out []byte, v parquet.Value) []byte {
			return append(time.Unix(int64(v.Int32())*86400, 0).UTC().AppendFormat(append(out, '"'), time.DateOnly), '"')
		}
	case *format.TimestampType:
		unit := int64(time.Millisecond)
		if a.Unit.Value != nil {
			unit = int64(a.Unit.Value.Duration())
		}
		perSecond := int64(time.Second) / unit
		return func(out []byte, v parquet.Value) []byte {
			return appendTime(out, time.Unix(v.Int64()/perSecond, v.Int64()%perSecond*unit))
		}
	case *format.DecimalType:
		return func(out []byte, v parquet.Value) []byte { return appendDecimal(out, v, int(a.Scale)) }
	case *format.IntType:
		if !a.IsSigned {
			return func(out []byte, v parquet.Value) []byte {
				if v.Kind() == parquet.Int32 {
					return strconv.AppendUint(out, uint64(v.Uint32()), 10)
				}
				return strconv.AppendUint(out, v.Uint64(), 10)
			}
		}
	}
	return writePhysical
}

// isBytes reports whether a value has bytes. A corrupt file may annotate a number as a string;
// reading its bytes would then access arbitrary memory.
func isBytes(v parquet.Value) bool {
	return v.Kind() == parquet.ByteArray || v.Kind() == parquet.FixedLenByteArray
}

// writePhysical appends a value by its physical type.
func writePhysical(out []byte, v parquet.Value) []byte {
	switch v.Kind() {
	case parquet.Boolean:
		return strconv.AppendBool(out, v.Boolean())
	case parquet.Int32:
		return strconv.AppendInt(out, int64(v.Int32()), 10)
	case parquet.Int64:
		return strconv.AppendInt(out, v.Int64(), 10)
	case parquet.Int96: // a timestamp of older writers: nanoseconds of the day, and Julian day
		const epoch = 2440588
		i := v.Int96()
		nanos := int64(i[1])<<32 | int64(i[0])
		return appendTime(out, time.Unix((int64(i[2])-epoch)*86400, nanos))
	case parquet.Float:
		return appendFloat(out, float64(v.Float()), 32)
	case parquet.Double:
		return appendFloat(out, v.Double(), 64)
	}
	if !isBytes(v) {
		return append(out, "null"...)
	}
	if b := v.ByteArray(); utf8.Valid(b) {
		return appendString(out, b)
	}
	return append(base64.StdEncoding.AppendEncode(append(out, '"'), v.ByteArray()), '"')
}

// appendFloat appends a JSON number. NaN and infinities become strings, so that the record is
// rejected with the path of the field.
func appendFloat(out []byte, f float64, bits int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(strconv.AppendFloat(append(out, '"'), f, 'g', -1, bits), '"')
	}
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return strconv.AppendFloat(out, f, 'f', -1, bits)
	}
	return strconv.AppendFloat(out, f, 'g', -1, bits)
}

func appendTime(out []byte, t time.Time) []byte {
	return append(t.UTC().AppendFormat(append(out, '"'), time.RFC3339Nano), '"')
}

func writeUUID(out []byte, v parquet.Value) []byte {
	if !isBytes(v) {
		return writePhysical(out, v)
	}
	text := hex.EncodeToString(v.ByteArray())
	if len(text) != 32 {
		return appendString(out, []byte(text))
	}
	return append(out, `"`+text[:8]+"-"+text[8:12]+"-"+text[12:16]+"-"+text[16:20]+"-"+text[20:]+`"`...)
}

// appendDecimal appends an unscaled number of any width as a JSON number.
func appendDecimal(out []byte, v parquet.Value, scale int) []byte {
	n := new(big.Int)
	switch v.Kind() {
	case parquet.Int32:
		n.SetInt64(int64(v.Int32()))
	case parquet.Int64:
		n.SetInt64(v.Int64())
	default: // two's complement, big-endian
		if !isBytes(v) || len(v.ByteArray()) > maxDecimal {
			return writePhysical(out, v)
		}
		b := v.ByteArray()
		n.SetBytes(b)
		if len(b) > 0 && b[0] >= 0x80 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
	}
	text := n.String()
	if scale <= 0 {
		return append(out, text...)
	}
	sign := ""
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	if len(text) <= scale {
		text = strings.Repeat("0", scale-len(text)+1) + text
	}
	return append(out, sign+text[:len(text)-scale]+"."+text[len(text)-scale:]...)
}
