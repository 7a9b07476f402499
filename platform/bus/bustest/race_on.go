//go:build race

package bustest

// raceEnabled reports whether the race detector is on. Watermill's suite has fixed deadlines, such as 45 s for 10,000
// messages, so it runs in short mode with the detector.
const raceEnabled = true
