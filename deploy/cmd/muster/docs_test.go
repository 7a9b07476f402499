package main

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// repository is the path of the repository root.
const repository = "../../.."

// pages returns the Markdown files of the repository by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := make(map[string]string)
	require.NoError(t, filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != repository &&
			(strings.HasPrefix(name, ".") ||
				slices.Contains([]string{"node_modules", "bin", "dist", "testdata"}, name)) {
			return fs.SkipDir
		}
		if filepath.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(repository, path)
		out[relative] = string(text)
		return err
	}))
	require.Greater(t, len(out), 20)
	return out
}

var (
	fence    = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	inline   = regexp.MustCompile("`([^`\n]+)`")
	linked   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#{1,6} +(.*)$`)
	unsigned = regexp.MustCompile(`[^\p{L}\p{N}\p{M} _-]`)
)

// anchor returns the anchor of a heading.
func anchor(text string) string {
	text = linked.ReplaceAllString(text, "]")
	return strings.ReplaceAll(unsigned.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), ""), " ", "-")
}

func TestDocs_LinksResolve(t *testing.T) {
	all := pages(t)
	anchors := make(map[string][]string)
	for path, text := range all {
		for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			anchors[path] = append(anchors[path], anchor(h[1]))
		}
	}
	checked := 0
	for path, text := range all {
		for _, m := range linked.FindAllStringSubmatch(
			fence.ReplaceAllString(inline.ReplaceAllString(text, "code"), ""), -1) {
			target, part, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") ||
				strings.HasPrefix(target, "/docs") {
				continue // external; the links to /docs are tested where it is served
			}
			checked++
			to := path
			if target != "" {
				to = filepath.Join(filepath.Dir(path), filepath.FromSlash(target))
				if _, err := os.Stat(filepath.Join(repository, to)); err != nil {
					t.Errorf("%s links %s, which does not exist", path, m[1])
					continue
				}
			}
			if part != "" && filepath.Ext(to) == ".md" && !slices.Contains(anchors[to], part) {
				t.Errorf("%s links %s: %s has no such heading", path, m[1], to)
			}
		}
	}
	require.Greater(t, checked, 40)
}

func TestDocs_NamedTestsExist(t *testing.T) {
	declared := make(map[string]bool)
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	require.NoError(t, filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(text, -1) {
			declared[string(m[1])] = true
		}
		return err
	}))
	named := regexp.MustCompile("`(Test[A-Z]\\w+)`")
	checked := 0
	for path, text := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if checked++; !declared[m[1]] && m[1] != "TestSubject_ClaimInPresentTense" {
				t.Errorf("%s names %s, which does not exist", path, m[1])
			}
		}
	}
	require.Greater(t, checked, 5)

	// Patterns of tests to run match some.
	pattern := regexp.MustCompile(`\bTest[A-Z]\w+`)
	for _, path := range []string{"Makefile", ".ci/run"} {
		text, err := os.ReadFile(filepath.Join(repository, path))
		require.NoError(t, err)
		for _, name := range pattern.FindAllString(string(text), -1) {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(declared)), func(test string) bool {
				return strings.HasPrefix(test, name)
			}) {
				t.Errorf("%s runs %s, which does not exist", path, name)
			}
		}
	}
}

// commands returns the muster command lines of a page, in shell blocks and inline code.
func commands(text string) []string {
	var out []string
	take := func(code string) {
		for _, prefix := range []string{"bin/muster ", "muster "} {
			if rest, ok := strings.CutPrefix(strings.TrimPrefix(strings.TrimSpace(code), "$ "), prefix); ok {
				out = append(out, rest)
				return
			}
		}
	}
	for _, block := range fence.FindAllString(text, -1) {
		first, body, _ := strings.Cut(strings.TrimSpace(block), "\n")
		if first != "```sh" && first != "```bash" {
			continue
		}
		for line := range strings.SplitSeq(strings.ReplaceAll(body, "\\\n", " "), "\n") {
			for part := range strings.SplitSeq(line, " | ") {
				take(part)
			}
		}
	}
	for _, m := range inline.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		take(m[1])
	}
	return out
}

func TestDocs_CommandsAndFlagsExist(t *testing.T) {
	var out bytes.Buffer
	root := newRoot(&command{std: streams{in: &out, out: &out, err: &out}, getenv: func(string) string { return "" },
		signals: new(deferredHandler)})
	checked := 0
	for path, text := range pages(t) {
		if path == "CHANGELOG.md" || strings.HasPrefix(path, filepath.Join("deploy", "docs", "decisions")) {
			continue // history
		}
		for _, call := range commands(text) {
			checked++
			if problem := understand(root, call); problem != "" {
				t.Errorf("%s: muster %s: %s", path, call, problem)
			}
		}
	}
	require.Greater(t, checked, 60)
}

func TestDocs_UnderstandReportsUnknownNames(t *testing.T) {
	root := newRoot(&command{getenv: func(string) string { return "" }})
	for call, problem := range map[string]string{
		"up --sample 100": "",
		"--data-dir x ingest network-person f.ndjson": "",
		"account webhook-secret show|rotate ORG":      "",
		"up --sampel 100":                             "unknown flag --sampel",
		"engage":                                      "unknown command engage",
		"account crate X":                             "unknown command crate",
		"webhook secret show|burn X":                  "unknown command show|burn",
	} {
		require.Equal(t, problem, understand(root, call), call)
	}
}

// understand resolves the subcommands of a call and looks up its flags. It returns "" if all of them exist.
func understand(root *cobra.Command, call string) (problem string) {
	at := root
	arguments, value := false, false // value: the word is the value of the previous flag
	for word := range strings.FieldsSeq(call) {
		if strings.HasPrefix(word, "#") ||
			slices.Contains([]string{">", "<", "&&", "||", ";", "&", "|", "2>", ">>"}, word) {
			break
		}
		if value {
			value = false
			continue
		}
		word = strings.Trim(word, "[](),;…")
		if name, ok := strings.CutPrefix(word, "-"); ok && name != "" && word != "--" {
			name, _, given := strings.Cut(strings.TrimPrefix(name, "-"), "=")
			flag := lookup(at, name)
			if flag == nil {
				return "unknown flag " + word
			}
			value = !given && flag.NoOptDefVal == "" && flag.Value != nil
			continue
		}
		if arguments {
			continue
		}
		var next *cobra.Command
		for one := range strings.SplitSeq(word, "|") {
			if next = child(at, one); next == nil {
				break
			}
		}
		switch {
		case next != nil:
			at = next
		case isGroup(at):
			return "unknown command " + word
		default:
			arguments = true
		}
	}
	return ""
}

func child(of *cobra.Command, name string) *cobra.Command {
	for _, c := range of.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return c
		}
	}
	return nil
}

func lookup(in *cobra.Command, name string) *pflag.Flag {
	if name == "help" || name == "h" {
		return &pflag.Flag{}
	}
	for _, set := range []*pflag.FlagSet{in.Flags(), in.InheritedFlags()} {
		if f := set.Lookup(name); f != nil {
			return f
		}
		if len(name) == 1 {
			if f := set.ShorthandLookup(name); f != nil {
				return f
			}
		}
	}
	return nil
}
