package profile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/schemas/custom"
	"muster/schemas/event"
)

func TestRender_SizeLimitIncludesSources(t *testing.T) {
	var schema custom.Schema
	generated := make(map[string]Value)
	for i := range custom.MaxFields {
		name := fmt.Sprint("field", i)
		schema = append(schema, custom.Field{Name: name, Type: custom.Type{Kind: custom.String}})
		generated[name] = Value{JSON: jsontext.Value(`"x"`), Confidence: 1,
			Source: inputSource("/"+strings.Repeat("\x01", 10_000), 0, 1)}
	}
	out, nothing, err := render(nil, schema, generated, 0.5)
	require.NoError(t, err)
	require.False(t, nothing)
	require.Less(t, len(out), event.MaxContextProfile)
}
