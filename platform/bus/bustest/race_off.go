//go:build !race

package bustest

const raceEnabled = false
