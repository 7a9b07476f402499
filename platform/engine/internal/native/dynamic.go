package native

import "fmt"

func parseDynamicType(base string, parts []string, name string) (*columnType, error) {
	return nil, fmt.Errorf("native: type %s cannot be sent in the revision the client asked for", name)
}

func (r *reader) skipDynamicPrefix(t *columnType, state map[*columnType]*columnType) error {
	return nil
}

func (r *reader) skipDynamicData(t *columnType, rows int, state map[*columnType]*columnType) error {
	return nil
}
