package profile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/schemas/customfield"
	"muster/schemas/event"
)

func TestRender_SizeLimitIncludesSources(t *testing.T) {
	var schema customfield.Schema
	generated := make(map[string]Value)
	for i := range customfield.MaxFields {
		name := fmt.Sprint("field", i)
		schema = append(schema, customfield.Field{Name: name, Type: customfield.Type{Kind: customfield.String}})
		generated[name] = Value{JSON: jsontext.Value(`"x"`), Confidence: 1,
			Source: inputSource("/"+strings.Repeat("\x01", 10_000), 0, 1)}
	}
	out, nothing, err := render(nil, schema, generated, 0.5)
	require.NoError(t, err)
	require.False(t, nothing)
	require.Less(t, len(out), event.MaxContextProfile)
}
