package discovery

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/discovery-worker/internal/evidence"
)

func TestPriorFromEnv_ReadsAndChecksEachSetting(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        evidence.Prior
		err         string
	}{
		{EnvPopulation, "", evidence.Prior{}, ""},
		{EnvPopulation, " 1 ", evidence.Prior{Population: 1}, ""},
		{EnvPopulation, "2.5", evidence.Prior{Population: 2.5}, ""},
		{EnvPopulation, "0.9", evidence.Prior{}, EnvPopulation},
		{EnvPopulation, "NaN", evidence.Prior{}, EnvPopulation},
		{EnvPopulation, "+Inf", evidence.Prior{}, EnvPopulation},
		{EnvPopulation, "many", evidence.Prior{}, EnvPopulation},
		{EnvPrevalence, "0.25", evidence.Prior{Prevalence: 0.25}, ""},
		{EnvPrevalence, "0", evidence.Prior{}, EnvPrevalence},
		{EnvCoverage, "network=0.5", evidence.Prior{Coverage: map[string]float64{"network": 0.5}}, ""},
		{EnvCoverage, "unknown=0.5", evidence.Prior{}, EnvCoverage},
	} {
		got, err := priorFromEnv(func(name string) string {
			if name == c.name {
				return c.value
			}
			return ""
		})
		if c.err != "" {
			require.ErrorContains(t, err, c.err+" is invalid", c)
			continue
		}
		require.NoError(t, err, c)
		require.Equal(t, c.want, got, c)
	}
}
