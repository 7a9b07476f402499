package search

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/query-api/internal/search/planner"
)

// hitsOf returns hits from texts such as "3a 2b": the score of a is 3. Their hashes are in the order of their IDs.
func hitsOf(text string) (hits []searchHit) {
	for _, f := range strings.Fields(text) {
		hits = append(hits, searchHit{
			Score: float32(f[0] - '0'), place: planner.Place{Hash: uint64(f[1]), ID: f[1:]},
		})
	}
	return hits
}

func TestMergeTies_RejectsHitsThatContradictThePage(t *testing.T) {
	for name, c := range map[string]struct{ hits, tied, want string }{
		"those with the lowest hashes replace others": {"5d 3z 3y", "3a 3b 3y", "5d 3a 3b"},
		"better ones are ignored":                     {"5d 3z 3y", "3a 5d 3e", "5d 3a 3e"},
		"one score":                                   {"3z 3y 3x", "3a 3b 3c", "3a 3b 3c"},
		"more than needed":                            {"5d 4e 3y", "3a 3b 3c", "5d 4e 3a"},
		"too few":                                     {"5d 3z 3y", "3a", "5d 3a"},
		"none":                                        {"5d 3z 3y", "", "5d"},
		"a tied one became better":                    {"5d 3z 3y", "3a 4y 3z", "-"},
		"a better one became tied":                    {"5d 3z 3y", "3a 3d 3z", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			merged, ok := mergeTies(hitsOf(c.hits), hitsOf(c.tied), 3)
			require.Equal(t, c.want != "-", ok)
			if ok {
				require.Equal(t, hitsOf(c.want), merged)
			}
		})
	}
}
