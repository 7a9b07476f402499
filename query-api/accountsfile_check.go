package queryapi

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"muster/platform/suggest"
)

// maxAccountsDepth is the maximum nesting of an accounts file, aliases included; maxAccountsMistakes is the maximum
// number of reported mistakes.
const (
	maxAccountsDepth    = 16
	maxAccountsMistakes = 20
)

// checkAccounts returns an error for each part of a YAML document that does not fit the target type
// (unknown keys, values of another type), with its line.
func checkAccounts(document *yaml.Node, into reflect.Type) error {
	c := accountsCheck{}
	c.value(document, into, "the file", 0)
	return errors.Join(c.mistakes...)
}

type accountsCheck struct{ mistakes []error }

func (c *accountsCheck) add(node *yaml.Node, format string, args ...any) {
	if len(c.mistakes) < maxAccountsMistakes {
		c.mistakes = append(c.mistakes, fmt.Errorf("line %d: "+format, append([]any{node.Line}, args...)...))
	}
}

// value checks a node; name is used in messages.
func (c *accountsCheck) value(node *yaml.Node, into reflect.Type, name string, depth int) {
	for node.Kind == yaml.DocumentNode && len(node.Content) > 0 || node.Kind == yaml.AliasNode {
		if depth++; depth > maxAccountsDepth {
			c.add(node, "%s is nested too deep", name)
			return
		}
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		} else {
			node = node.Content[0]
		}
	}
	for into.Kind() == reflect.Pointer {
		into = into.Elem()
	}
	if into == reflect.TypeFor[yaml.Node]() || node.Kind == 0 || node.ShortTag() == "!!null" {
		return // decoded separately, or empty
	}
	if depth > maxAccountsDepth {
		c.add(node, "%s is nested too deep", name)
		return
	}
	switch into.Kind() {
	case reflect.Struct, reflect.Map:
		if node.Kind != yaml.MappingNode {
			c.add(node, "%s must have keys and values, such as \"name: value\"", name)
			return
		}
		c.members(node, into, depth+1)
	case reflect.Slice:
		if node.Kind != yaml.SequenceNode {
			c.add(node, "%s must be a list: start each entry with \"- \"", name)
			return
		}
		for _, entry := range node.Content {
			c.value(entry, into.Elem(), "each of "+name, depth+1)
		}
	default:
		if into.Kind() != reflect.String && node.Decode(reflect.New(into).Interface()) == nil ||
			into.Kind() == reflect.String && node.Kind == yaml.ScalarNode {
			return
		}
		what := map[reflect.Kind]string{reflect.Bool: "true or false", reflect.Int64: "a whole number"}[into.Kind()]
		if what == "" {
			what = "a string"
		}
		c.add(node, "%s must be %s", name, what)
	}
}

// members checks the keys of a mapping and their values.
func (c *accountsCheck) members(node *yaml.Node, into reflect.Type, depth int) {
	fields := make(map[string]reflect.Type)
	var known []string
	if into.Kind() == reflect.Struct {
		for field := range into.Fields() {
			key := field.Tag.Get("yaml")
			fields[key] = field.Type
			known = append(known, key)
		}
		slices.Sort(known)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		field, ok := fields[key.Value]
		switch {
		case key.ShortTag() == "!!merge":
			continue // its keys are checked at the anchor
		case into.Kind() == reflect.Map:
			field = into.Elem()
		case !ok:
			c.add(key, "unknown key %q: %s", key.Value,
				suggest.Hint(key.Value, known, "Known are "+strings.Join(known, ", ")))
			continue
		}
		c.value(value, field, key.Value, depth)
	}
}
