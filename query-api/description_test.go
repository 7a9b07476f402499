package queryapi_test

import (
	"net/http"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	queryapi "muster/query-api"
	"muster/schemas/readmodel"
)

func TestDescriptionNamesMustHaveFields(t *testing.T) {
	schemas := loadDescription(t).Components.Schemas
	for name, fields := range map[string][]string{
		"NetworkMustHave": readmodel.NetworkFields(), "CodehostMustHave": readmodel.CodehostFields(),
	} {
		var listed []string
		for _, v := range schemas[name].Value.Enum {
			listed = append(listed, v.(string))
		}
		require.ElementsMatch(t, fields, listed, name)
	}
}

func TestDescriptionIsServed(t *testing.T) {
	f := start(t, nil)
	got := f.do(http.MethodGet, "/v1/openapi.json", "", map[string]string{"Authorization": ""})
	require.Equal(t, http.StatusOK, got.status)
	want, err := queryapi.Description()
	require.NoError(t, err)
	require.JSONEq(t, string(want), got.body)
	var document map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.body), &document))
	require.Equal(t, "3.1.0", document["openapi"])
	require.Equal(t, http.StatusBadRequest, f.get("/v1/openapi.json?pretty=1").status)
}
