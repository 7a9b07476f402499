package sampledata

import "fmt"

// Record is one upstream record.
type Record struct {
	Kind string
	JSON []byte
}

// Person returns every record of the person with the index, except companies, versions oldest first.
func (x *World) Person(index int) ([]Record, error) {
	if index < 0 || index >= x.w.people {
		return nil, fmt.Errorf("person %d of %d: out of range", index, x.w.people)
	}
	var out []Record
	for _, kind := range Kinds() {
		e := x.w.emitter(kind, collector{&out})
		for v := 0; v < e.slots; v++ {
			if err := e.emit(index, v); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// Truth returns the person's own line of the truth file.
func (x *World) Truth(index int) ([]byte, error) {
	if index < 0 || index >= x.w.people {
		return nil, fmt.Errorf("person %d of %d: out of range", index, x.w.people)
	}
	var o object
	x.w.truthEntity(&o, index)
	return o.b, o.err
}

type collector struct{ out *[]Record }

func (c collector) Record(kind string, json []byte) error {
	*c.out = append(*c.out, Record{kind, append([]byte(nil), json...)})
	return nil
}

func (collector) Truth([]byte) error { return nil }
