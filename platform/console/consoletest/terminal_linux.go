// Package consoletest provides terminals for tests.
package consoletest

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Open returns a terminal and a function that returns everything shown on it. Close the terminal before calling screen.
func Open(t testing.TB) (terminal *os.File, screen func() string) {
	t.Helper()
	terminal, screenFile := pair(t)
	shown := make(chan string, 1)
	go func() {
		var all strings.Builder
		_, _ = io.Copy(&all, screenFile) // ends with EIO when the terminal is closed
		shown <- all.String()
	}()
	return terminal, func() string { return <-shown }
}

// Type returns a terminal at which keys have been typed. Its output is discarded.
func Type(t testing.TB, keys string) (terminal *os.File) {
	t.Helper()
	terminal, keyboard := pair(t)
	_, err := io.WriteString(keyboard, keys)
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, keyboard) }() // ends when the test closes the terminal
	return terminal
}

// pair opens a pseudoterminal and returns both ends.
func pair(t testing.TB) (terminal, screenFile *os.File) {
	t.Helper()
	screenFile, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = screenFile.Close() })
	number, err := unix.IoctlGetInt(int(screenFile.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(screenFile.Fd()), unix.TIOCSPTLCK, 0))
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = terminal.Close() })
	_, err = term.MakeRaw(int(terminal.Fd())) // keeps line feeds unchanged
	require.NoError(t, err)
	return terminal, screenFile
}
