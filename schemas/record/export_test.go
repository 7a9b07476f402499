package record

import "github.com/go-json-experiment/json/jsontext"

// Reading is what one of the two decoders makes of a record.
type Reading struct {
	Body    any
	Hash    uint64
	Compact string
	Absent  bool
}

// ReadFast is the one-pass decoder; it takes what it can.
func ReadFast(kind Kind, raw []byte) (Reading, bool) {
	c, _ := codecOf(kind)
	b, found, ok := c.decodeFast(raw)
	if !ok {
		return Reading{}, false
	}
	return Reading{Body: b, Hash: found.hash, Compact: string(found.compact), Absent: found.absent}, true
}

// ReadSlow is the decoder that takes every record and explains what is none.
func ReadSlow(kind Kind, raw []byte) (r Reading, spaces bool, bad *ValidationError) {
	c, _ := codecOf(kind)
	b, found, bad := c.decodeGeneric(raw)
	if bad != nil {
		return Reading{}, false, bad
	}
	return Reading{Body: b, Hash: found.hash, Compact: string(found.compact), Absent: found.absent}, found.spaces, nil
}

// Compact removes insignificant white space.
func Compact(raw []byte) []byte {
	value := jsontext.Value(append([]byte(nil), raw...))
	if value.Compact() != nil {
		return raw
	}
	return value
}
