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

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// State is what is kept of a repository between runs.
type State struct {
	// Path is the repository's folder.
	Path string `json:"path"`
	// Tips are the commits and tags that references named.
	Tips []string `json:"tips"`
	// Generation is the one that Tips were published in. It is empty in states of
	// before it was noted.
	Generation string `json:"generation,omitempty"`
	// Created is when the first commit was made.
	Created time.Time `json:"created,omitzero"`
	// Owner is the account that the repository belongs to, if it is known.
	Owner Account `json:"owner,omitzero"`
}

// statePath is the file of a repository's state.
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
		return s, fmt.Errorf("read the state of %s: %w", repository, err)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("read the state of %s from %s (delete the file to begin anew): %w", repository, statePath(dir, repository), err)
	}
	return s, nil
}

// write replaces the state at once.
func (s State) write(dir string) error {
	raw, err := json.Marshal(s, jsontext.Multiline(true))
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("write the state of %s: %w", s.Path, err)
	}
	path := statePath(dir, s.Path)
	f, err := os.CreateTemp(dir, ".state-*")
	if err != nil {
		return fmt.Errorf("write the state of %s: %w", s.Path, err)
	}
	_, err = f.Write(append(raw, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the state of %s: %w", s.Path, err), os.Remove(f.Name()))
	}
	return nil
}

var hash = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)

// hashes returns those of a state's tips that are object names. Without the others, commits are read again.
func hashes(tips []string) []string {
	return slices.DeleteFunc(slices.Clone(tips), func(t string) bool { return !hash.MatchString(t) })
}
