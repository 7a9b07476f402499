package differential_test

import (
	"fmt"
	"strings"
)

// unusualCompanies returns what the sample data lack: lists of repeated, long and unusual values, scripts, limits of
// numbers.
func unusualCompanies() []string {
	long := strings.Repeat("long value ", 40)
	bodies := []string{
		`"profile":{"name":"Omega Omega","specialties":["data data","data engineering","Data"],"employees":0}`,
		`"profile":{"name":"!!!","specialties":["!!!","🚀 rockets 🚀","` + long + `"],"founded":-50}`,
		`"profile":{"name":"東京データ","specialties":["東京","データ"]},"headquarters":{"city":"東京","country":"日本"}`,
		`"profile":{"name":"Ångström Straße","description":"` + long + `","employees":4503599627370497}`,
		`"profile":{"specialties":["one two","three one"],"website":"https://shop.one-two.example/x?y"}`,
		`"profile":{"specialties":["same","same","same"]},"headquarters":{"line1":"a*b?c \\ / \"quoted\""}`,
		`"network_slug":"only-slug"`,
	}
	var out []string
	for i, b := range bodies {
		out = append(out, fmt.Sprintf(`{"company_id":"strange-%d","last_updated":"2026",%s}`, i, b))
	}
	return out
}
