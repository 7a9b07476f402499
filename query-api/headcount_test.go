package queryapi_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/schemas/readmodel"
	"muster/schemas/record"
)

func TestCompanyEnrich_ShowsHeadcountByYear(t *testing.T) {
	f := start(t, nil)
	f.insert(record.KindNetworkCompany,
		`{"company_id":"c1","network_slug":"acme","headcount_by_year":"upstream","last_updated":"2026"}`,
		`{"company_id":"c2","network_slug":"tiny","last_updated":"2026"}`)
	for i := range 6 {
		company := "c1"
		if i == 0 {
			company = "c2"
		}
		f.insert(record.KindNetworkPerson, fmt.Sprintf(
			`{"profile_id":"p%d","username":"p%[1]d","last_updated":"2026","experience":[{"title":"x","company":`+
				`{"company_id":%q},"start":"2019-05","end":"2022-01"}]}`, i, company))
	}
	company := func(body string) map[string]any {
		t.Helper()
		got, _ := f.post(companyPath, body).json()["company"].(map[string]any)
		require.NotNil(t, got)
		return got
	}
	require.NotContains(t, company(`{"network_slug":"acme"}`), "headcount_by_year", "nothing is counted yet")
	at := time.Date(2026, 6, 1, 12, 30, 15, 999, time.UTC)
	require.NoError(t, readmodel.CountHeadcounts(t.Context(), f.conn, readmodel.HeadcountState{At: at.Add(-time.Hour)}))
	require.NoError(t, readmodel.CountHeadcounts(t.Context(), f.conn, readmodel.HeadcountState{At: at}))
	year := func(y float64) map[string]any { return map[string]any{"year": y, "people": 5.} }
	want := map[string]any{"as_of": "2026-06-01T12:30:15Z", "sample": 5., "years": []any{year(2019), year(2020), year(2021)}}
	require.Equal(t, want, company(`{"network_slug":"acme"}`)["headcount_by_year"])
	require.Equal(t, map[string]any{"headcount_by_year": want},
		company(`{"company_id":"c1","fields":["headcount_by_year"]}`))
	require.NotContains(t, company(`{"network_slug":"tiny"}`), "headcount_by_year")
}
