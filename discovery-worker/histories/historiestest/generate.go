// Package historiestest generates small git repositories whose authors have invented names, for tests.
package historiestest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Author is an author of a generated repository. Addresses are used in turn.
type Author struct {
	Name      string
	Addresses []string
}

// Repository generates a bare repository in a directory, with a commit for each address of each author, and a
// .mailmap.
func Repository(t testing.TB, dir, mailmap string, authors ...Author) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o750))
	git(t, dir, nil, "init", "-q", "--bare", "-b", "main")
	var stream bytes.Buffer
	at := 1_700_000_000
	commit := func(name, address, file, content string) {
		at++
		who := fmt.Sprintf("%s <%s> %d +0000", name, address, at)
		fmt.Fprintf(&stream, "commit refs/heads/main\nauthor %s\ncommitter %s\ndata 6\nchange\n", who, who)
		if file != "" {
			fmt.Fprintf(&stream, "M 100644 inline %s\ndata %d\n%s\n", file, len(content), content)
		}
	}
	for _, a := range authors {
		for _, address := range a.Addresses {
			commit(a.Name, address, "", "")
		}
	}
	commit("Release", "release@example.com", "main.go", "package main")
	commit("Release", "release@example.com", ".mailmap", mailmap)
	git(t, dir, &stream, "fast-import", "--quiet")
}

// Crowd returns n authors with an account each, and another address. Every third one is employed by a company with a
// domain of its own.
func Crowd(n int) []Author {
	given := strings.Fields("Karlon Morvin Patrix Nikhal Selwa Odrin Tamsel Virela Jorvik Anselu Brenka Dovrin")
	family := strings.Fields("Goezbacht Gornwickel Styk Zatko Wadri Morganow Quarn Mullenrath Abarest Lindoval " +
		"Fennimor Harkesh Ostrinov Pellwick Rundegar Sivoral Trevanik")
	handles := strings.Fields("%s-%s %[2]s%[1]s quiet%[3]d loud-badger-%[3]d")
	var out []Author
	for i := range n {
		g, f := given[i%len(given)], family[(i/len(given)+i)%len(family)]
		handle := strings.ToLower(fmt.Sprintf(handles[i%len(handles)], g, f, i))
		if cut := strings.Index(handle, "%!"); cut >= 0 { // arguments that a form does not use
			handle = handle[:cut]
		}
		second := fmt.Sprintf("%s.%s%d@mail.example", strings.ToLower(g), strings.ToLower(f), i)
		if i%3 == 0 {
			second = fmt.Sprintf("%s%d@firm%d.example", strings.ToLower(g), i, i%5)
		}
		out = append(out, Author{g + " " + f,
			[]string{fmt.Sprintf("%d+%s@users.noreply.codehost.example", 1000+i, handle), second}})
	}
	return out
}

// Mailmap returns the lines of .mailmap that join the addresses of each author.
func Mailmap(authors []Author) string {
	var b strings.Builder
	for _, a := range authors {
		for _, address := range a.Addresses {
			fmt.Fprintf(&b, "%s <%s> <%s>\n", a.Name, a.Addresses[len(a.Addresses)-1], address)
		}
	}
	return b.String()
}

func git(t testing.TB, dir string, stdin *bytes.Buffer, args ...string) {
	t.Helper()
	//nolint:gosec // constant arguments
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", filepath.Clean(dir)}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	if stdin != nil {
		cmd.Stdin = stdin
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
