//go:build race

package bustest

// raceEnabled: Watermill's TestReconnect has a data race of its own (it reads the
// list of published messages while appending to it), so it runs without the detector.
const raceEnabled = true
