//go:build race

package bustest

// raceEnabled reports whether the race detector is on. Watermill's TestReconnect has a data race (it reads the list of
// published messages while appending to it), so it runs without the detector. The suite also has fixed deadlines, such
// as 45 s for 10,000 messages, so it runs in short mode with the detector.
const raceEnabled = true
