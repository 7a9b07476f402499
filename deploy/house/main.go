// House measures the house rules of this repository and prints each with its bar: private words, long lines,
// hand-written lines, folders per capability, and sizes of packages and files. It exits with 1 if a bar is missed.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// The bars.
const (
	maxWordsInGo, maxWordsInMarkdown = 40, 25
	maxColumns, maxLongLines         = 120, 300
	maxHandWritten                   = 130_000 + maxLinesSince
	maxErasureFolders                = 8
	minPackageLines, maxFileLines    = 100, 700
)

// maxLinesSince is the budget of the features that were added after the bar of 130,000 lines was met (129,705 lines):
// OpenSearch 4,200, aggregations, highlights and pages 2,700, search of companies, suggestions and further fields
// 2,100, discovery on real names 3,000, bulk jobs 2,700, descriptions (identify), headcounts and feedback 2,100, items,
// fields and companies 1,700, settings of callers and notices of erasures 1,450, MCP 1,200, linked accounts in search
// 1,250, /explore 450, pages of OpenSearch without sorting everyone 400, fewer reads of first searches 200,
// expansions of patterns in few statements 560, checks of fields and of operators' values 300, versions in OpenSearch
// and refreshes of linked accounts 200, one replica and bounded memory 90, links of candidates only 180, code-host
// records in part project 190, errors of addresses and clean stops 150.
const maxLinesSince = 25_100

func main() {
	dir := flag.String("dir", ".", "root of the repository")
	files := flag.Int("list", 10, "files to list of each measure, those with the most first")
	flag.Parse()
	missed, err := run(os.DirFS(*dir), *files, os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(2)
	case missed > 0:
		os.Exit(1)
	}
}

// run measures a tree, prints what it found, and returns the number of missed bars.
func run(tree fs.FS, list int, out io.Writer) (missed int, err error) {
	sources, err := readSources(tree)
	if err != nil {
		return 0, err
	}
	for _, m := range measures() {
		total := 0
		for i := range sources {
			sources[i].found = m.count(&sources[i])
			total += sources[i].found
		}
		verdict := "met"
		if total > m.bar {
			verdict = "missed"
			missed++
		}
		fmt.Fprintf(out, "%-60s %7d  (at most %d: %s)\n", m.name, total, m.bar, verdict)
		if m.name != handWritten {
			printMost(out, sources, list)
		}
	}
	folders := erasureFolders(sources)
	verdict := "met"
	if len(folders) > maxErasureFolders {
		verdict = "missed"
		missed++
	}
	fmt.Fprintf(out, "%-60s %7d  (at most %d: %s)\n", "folders of erasure", len(folders), maxErasureFolders, verdict)
	for _, f := range folders {
		fmt.Fprintf(out, "  %s\n", f)
	}
	printSizes(out, sources, list)
	return missed, nil
}

// source is a file that people write.
type source struct {
	path  string
	text  []byte
	lines int
	found int // by the measure that runs
}

func (s *source) isGo() bool   { return strings.HasSuffix(s.path, ".go") }
func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// isRig reports whether the file is of a package that serves tests and measurements alone.
func (s *source) isRig() bool {
	for _, rig := range []string{
		"deploy/bench/", "deploy/chaos/", "deploy/e2e/", "deploy/house/",
		"discovery-worker/evaldiscovery/", "discovery-worker/internal/evaluate/", // make eval-discovery
	} {
		if strings.HasPrefix(s.path, rig) {
			return true
		}
	}
	folder := path.Base(path.Dir(s.path))
	return strings.HasSuffix(folder, "test") || strings.HasSuffix(folder, "tests")
}

// isCopied reports whether the file is a copy of the contract.
func (s *source) isCopied() bool { return strings.HasPrefix(s.path, "deploy/docs/spec/") }

// readSources reads all Go and Markdown files, except generated ones, test data and dependencies.
func readSources(tree fs.FS) ([]source, error) {
	generated := regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	var out []source
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			skip := name != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "testdata" ||
				name == "bin" || name == "dist"
			if skip {
				return fs.SkipDir
			}
			return nil
		}
		if ext := path.Ext(name); ext != ".go" && ext != ".md" {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		if !generated.Match(text) {
			out = append(out, source{path: name, text: text, lines: bytes.Count(text, []byte("\n"))})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read sources: %w", err)
	}
	if len(out) == 0 {
		return nil, errors.New("no Go or Markdown file: pass the root of the repository as -dir")
	}
	return out, nil
}

// measure counts occurrences in a file.
type measure struct {
	name  string
	bar   int
	count func(*source) int
}

const handWritten = "hand-written lines of Go without tests and their rigs"

func measures() []measure {
	words := regexp.MustCompile(`(?i)\b(whoever|(some|no|any)body)\b`)
	return []measure{
		{"private words in Go", maxWordsInGo, func(s *source) int {
			if !s.isGo() {
				return 0
			}
			return len(words.FindAllIndex(s.text, -1))
		}},
		{"private words in Markdown", maxWordsInMarkdown, func(s *source) int {
			if s.isGo() || s.isCopied() {
				return 0
			}
			return len(words.FindAllIndex(s.text, -1))
		}},
		{fmt.Sprintf("lines of Go over %d columns", maxColumns), maxLongLines, countLongLines},
		{handWritten, maxHandWritten, func(s *source) int {
			if !s.isGo() || s.isTest() || s.isRig() {
				return 0
			}
			return s.lines
		}},
	}
}

func countLongLines(s *source) int {
	if !s.isGo() {
		return 0
	}
	n := 0
	lines := bufio.NewScanner(bytes.NewReader(s.text))
	lines.Buffer(nil, len(s.text)+1)
	for lines.Scan() {
		if utf8.RuneCount(lines.Bytes()) > maxColumns {
			n++
		}
	}
	return n
}

// printMost prints the files with the most occurrences.
func printMost(out io.Writer, sources []source, n int) {
	most := slices.Clone(sources)
	slices.SortStableFunc(most, func(a, b source) int { return b.found - a.found })
	for _, s := range most[:min(n, len(most))] {
		if s.found > 0 {
			fmt.Fprintf(out, "  %6d  %s\n", s.found, s.path)
		}
	}
}

// erasureFolders returns the directories with erasure code, by file names.
func erasureFolders(sources []source) []string {
	name := regexp.MustCompile(`(^|/)(eras|suppress|receipt|subject|drop)[a-z_]*(/|\.go$|_)`)
	var out []string
	for _, s := range sources {
		folder := path.Dir(s.path)
		if s.isGo() && !s.isTest() && name.MatchString(s.path) && !slices.Contains(out, folder) {
			out = append(out, folder)
		}
	}
	slices.Sort(out)
	return out
}

// printSizes prints the small packages and the long files.
func printSizes(out io.Writer, sources []source, n int) {
	packages := make(map[string]int)
	var long []source
	for _, s := range sources {
		if !s.isGo() || s.isTest() {
			continue
		}
		packages[path.Dir(s.path)] += s.lines
		if s.lines > maxFileLines {
			s.found = s.lines
			long = append(long, s)
		}
	}
	var small []source
	for folder, lines := range packages {
		if lines < minPackageLines {
			small = append(small, source{path: folder, found: lines})
		}
	}
	slices.SortFunc(small, func(a, b source) int { return strings.Compare(a.path, b.path) })
	fmt.Fprintf(out, "%-60s %7d\n", fmt.Sprintf("packages under %d lines", minPackageLines), len(small))
	for _, s := range small {
		fmt.Fprintf(out, "  %6d  %s\n", s.found, s.path)
	}
	fmt.Fprintf(out, "%-60s %7d\n", fmt.Sprintf("files over %d lines", maxFileLines), len(long))
	printMost(out, long, n)
}
