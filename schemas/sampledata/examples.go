package sampledata

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

//go:embed examples
var examples embed.FS

// ExampleAccounts is the accounts file of the sample data: organizations and API keys that provoke errors. The keys are
// public, and none of them may read a record.
//
//go:embed examples/accounts.yaml
var ExampleAccounts []byte

// RevokedExample is the name of the key in ExampleAccounts that is revoked once it is created.
const RevokedExample = "revoked"

// Example returns the records of a kind, as NDJSON, that the examples in the API description and the guides
// use, such as the account octavia, the profile octavia-lin and the company acme; nil if there are none. They
// are part of the sample data, so that copied calls find them, but not of generated worlds. Those of the kind
// erasure come last. fixtures.md lists what each of them provokes.
func Example(kind string) ([]byte, error) {
	path := "examples/" + FileName(kind)
	entries, err := examples.ReadDir("examples")
	if err != nil {
		return nil, fmt.Errorf("examples: %w", err)
	}
	if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == filepath.Base(path) }) {
		return nil, nil
	}
	text, err := examples.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("examples: %w", err)
	}
	return text, nil
}
