//go:build race

package bustest

// raceEnabled: Watermill's TestReconnect has a data race of its own (it reads the
// list of published messages while appending to it), so it runs without the detector.
// And the suite's deadlines are its own, such as 45 s for 10,000 messages: with the detector it runs short.
const raceEnabled = true
