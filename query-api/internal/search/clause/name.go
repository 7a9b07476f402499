package clause

import "slices"

// maxClauseName is the maximum length of a _name in bytes.
const maxClauseName = 256

// clauseName is the parameter that names a clause. All clauses have it.
const clauseName = "_name"

// cutClauseName returns the name of a clause, empty if it has none, and its parameters without the name. Clauses on one
// field have it among the parameters of the field.
func cutClauseName(c *Clause, v value) (name string, rest value, err error) {
	if v.kind != '{' {
		return "", v, nil
	}
	is := func(m member) bool { return m.name == clauseName }
	if i := slices.IndexFunc(v.members, is); i >= 0 {
		at := v.members[i].value
		if at.kind != '"' || at.text == "" || len(at.text) > maxClauseName {
			return "", v, at.errorf("must be a string of 1 to %d bytes", maxClauseName)
		}
		v.members = slices.Delete(slices.Clone(v.members), i, i+1)
		return at.text, v, nil
	}
	if len(v.members) != 1 || !c.onField {
		return "", v, nil
	}
	name, inner, err := cutClauseName(&Clause{}, v.members[0].value)
	if name != "" {
		v.members = []member{{v.members[0].name, inner}}
	}
	return name, v, err
}
