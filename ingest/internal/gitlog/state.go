package gitlog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"muster/platform/atomicfile"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// State is the persistent state of a repository between runs.
type State struct {
	// Path is the repository's directory.
	Path string `json:"path"`
	// Tips are the commits and tags that references pointed to.
	Tips []string `json:"tips"`
	// Generation is the generation that Tips were published in. It is empty in states of releases
	// without generations.
	Generation string `json:"generation,omitempty"`
	// Created is the time of the first commit.
	Created time.Time `json:"created,omitzero"`
	// Owner is the account that owns the repository, if it is known.
	Owner Account `json:"owner,omitzero"`
}

// statePath returns the path of a repository's state file.
func statePath(dir, repository string) string {
	sum := sha256.Sum256([]byte(repository))
	return filepath.Join(dir, hex.EncodeToString(sum[:8])+".json")
}

func readState(dir, repository string) (State, error) {
	s := State{Path: repository}
	raw, err := os.ReadFile(statePath(dir, repository))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("read state of %s: %w", repository, err)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("read state of %s from %s (delete the file to start over): %w", repository,
			statePath(dir, repository), err)
	}
	return s, nil
}

// write replaces the state atomically.
func (s State) write(dir string) error {
	raw, err := json.Marshal(s, jsontext.Multiline(true))
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("write state of %s: %w", s.Path, err)
	}
	if err := atomicfile.WriteBytes(statePath(dir, s.Path), append(raw, '\n')); err != nil {
		return fmt.Errorf("write state of %s: %w", s.Path, err)
	}
	return nil
}

var objectNamePattern = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)

// objectNames returns the tips that are valid object names. Without the others, commits are read again.
func objectNames(tips []string) []string {
	return slices.DeleteFunc(slices.Clone(tips), func(t string) bool { return !objectNamePattern.MatchString(t) })
}
