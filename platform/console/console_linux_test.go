package console_test

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/platform/console"
	"muster/platform/console/consoletest"
)

func TestText_EscapesControlCharacters(t *testing.T) {
	for given, want := range map[string]string{
		"":                               "",
		"Ana Müller, Zoë\t\n林":           "Ana Müller, Zoë\t\n林",
		"a\x1b]0;pwned\x07\x1b[2Kb":      `a\u001b]0;pwned\u0007\u001b[2Kb`,
		"a\rb\x00\x7f":                   `a\u000db\u0000\u007f`,
		"\u009b2J\u0085":                 `\u009b2J\u0085`,
		"\u202eexe.\u202c \u2066x\u2069": `\u202eexe.\u202c \u2066x\u2069`,
		"\u200fعربي\u00a0":               "\u200fعربي\u00a0", // marks and spaces are not overrides
		"\x9b2J\xff":                     "\uFFFD2J\uFFFD",
		"\u00e4\ufffd":                   "\u00e4\ufffd",
	} {
		require.Equal(t, want, console.Text(given))
	}
}

func TestLine_EscapesLineAndCellEnds(t *testing.T) {
	require.Equal(t, "Ana\x1b, 林", console.Line("Ana\x1b, 林"), "other escapes are up to Text and Writer")
	require.Equal(t, `a\u000ab\u0009c\u000bd\u000c`, console.Line("a\nb\tc\vd\f"))
}

func TestText_KeepsTheMeaningOfJSON(t *testing.T) {
	name := "a\x1b[2K\u009b\u202e\x7f"
	raw, err := json.Marshal(name)
	require.NoError(t, err)
	var again string
	require.NoError(t, json.Unmarshal([]byte(console.Text(string(raw))), &again))
	require.Equal(t, name, again)
}

func TestWriter_EscapesForATerminalAcrossWrites(t *testing.T) {
	text := []byte("ä\x1b[2K\u009b林\u202e𝄞\xe2\x80\n.")
	for cut := range len(text) {
		terminal, screen := consoletest.Open(t)
		w := console.Writer(terminal)
		for _, part := range [][]byte{text[:cut], text[cut:]} {
			n, err := w.Write(part)
			require.NoError(t, err)
			require.Equal(t, len(part), n)
		}
		require.NoError(t, terminal.Close())
		require.Equal(t, "ä\\u001b[2K\\u009b林\\u202e𝄞\uFFFD\uFFFD\n.", screen())
	}
}

func TestWriter_PassesBytesThroughToOtherStreams(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, read.Close()) })
	require.Same(t, write, console.Writer(write))
	_, err = io.WriteString(console.Writer(write), "\x1b\xff")
	require.NoError(t, err)
	require.NoError(t, write.Close())
	all, err := io.ReadAll(read)
	require.NoError(t, err)
	require.Equal(t, "\x1b\xff", string(all))
	require.False(t, console.IsTerminal(&bytes.Buffer{}))

	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, null.Close()) })
	require.False(t, console.IsTerminal(null), "a device but not a terminal")
}
