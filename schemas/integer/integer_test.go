package integer_test

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"muster/schemas/integer"
)

func TestParse_AcceptsNumbersWithoutFraction(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-0": 0, "-0.0": 0, "0e999999999999": 0, "7": 7, "10.0": 10, "-10.000": -10, "1e1": 10, "1E+1": 10,
		"100e-2": 1, "1.5e1": 15, "-2.50E2": -250,
		"9223372036854775807": math.MaxInt64, "9223372036854775807.0": math.MaxInt64,
		"-9223372036854775808.00": math.MinInt64, "9.223372036854775807e18": math.MaxInt64,
		"1" + strings.Repeat("0", 5000) + "e-5000": 1, "0." + strings.Repeat("0", 5000) + "3e5001": 3,
	} {
		n, ok := integer.Parse([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, n, text)
	}
	for _, text := range []string{
		"", "1.5", "0.1", "1e-1", "15e-1", "9223372036854775808", "9223372036854775808.0", "1e19", "-1e19",
		"1e999999999999", "1e-999999999999", "12e400",
	} {
		_, ok := integer.Parse([]byte(text))
		require.False(t, ok, text)
	}
}

// Compares with math/big.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"1.0", "-12.30e1", "1e5", "0.00", "5e-1", "92233720368547758070e-1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if jsontext.Value(text).Kind() != '0' || !jsontext.Value(text).IsValid() || strings.TrimSpace(text) != text ||
			len(text) > 40 {
			return
		}
		if _, e, ok := strings.Cut(strings.ToLower(text), "e"); ok && len(e) > 4 {
			return // too large to compare
		}
		want, ok := new(big.Rat).SetString(text)
		require.True(t, ok)
		n, whole := integer.Parse([]byte(text))
		require.Equal(t, want.IsInt() && want.Num().IsInt64(), whole, text)
		if whole {
			require.Equal(t, want.Num().Int64(), n, text)
		}
	})
}

func TestRewriter_DecodesAndRewritesIntegers(t *testing.T) {
	type inner struct {
		N *int64  `json:"n"`
		F float64 `json:"f"`
	}
	type outer struct {
		A    *int64         `json:"a"`
		List []inner        `json:"list"`
		Ints []int          `json:"ints"`
		Any  jsontext.Value `json:",embed"`
	}
	raw := `{"a" : 10.0 ,"list":[{"n":1e2,"f":1.0},{"n":3,"f":2.50},{"n":null}],"ints":[1.0, ` +
		`2,-3.0e0],"unknown":{"x":4.0}}`
	var r integer.Rewriter
	var got, again outer
	require.NoError(t, json.Unmarshal([]byte(raw), &got, r.Option()))
	require.True(t, r.Found())
	clean := string(r.Rewrite([]byte(raw)))
	require.Equal(t, `{"a" : 10 ,"list":[{"n":100,"f":1.0},{"n":3,"f":2.50},{"n":null}],"ints":[1, 2,-3],`+
		`"unknown":{"x":4.0}}`, clean)
	require.NoError(t, json.Unmarshal([]byte(clean), &again))
	require.Equal(t, again, got)
	for _, wrong := range []string{`{"a":1.5}`, `{"a":"1.0"}`, `{"a":1e30}`, `{"ints":[0.5]}`, `{"a":1.0.0}`,
		`{"a":1.}`} {
		var plain, option error
		plain = json.Unmarshal([]byte(wrong), new(outer))
		option = json.Unmarshal([]byte(wrong), new(outer), new(integer.Rewriter).Option())
		require.Error(t, option, wrong)
		require.Equal(t, plain.Error(), option.Error(), wrong)
	}
}
