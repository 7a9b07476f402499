package queryapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestContext_TimeoutIsNotLoggedAsError(t *testing.T) {
	f := start(t, nil)
	r := f.post("/v1/context", `{"person":"later","response_timeout_sec":0}`)
	require.Equal(t, http.StatusGatewayTimeout, r.status, r.body)
	id := r.header.Get("X-Request-Id")
	lineOf := func() string {
		for line := range strings.SplitSeq(f.log.String(), "\n") {
			if strings.Contains(line, `"msg":"request"`) && strings.Contains(line, id) {
				return line
			}
		}
		return ""
	}
	require.Eventually(t, func() bool { return lineOf() != "" }, waitTimeout, waitTimeout/1000)
	require.Contains(t, lineOf(), `"level":"DEBUG"`)
}
