package engine

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// MetadataError means that the engine cannot start because it cannot read the file that defines a table or a database.
type MetadataError struct {
	File  string // path
	Name  string // table or database
	Cause string // message of the engine
}

func (e *MetadataError) Error() string {
	return fmt.Sprintf("the definition of %s cannot be read from %s (%s)", e.Name, e.File, e.Cause)
}

// metadataFile matches the path of a definition in a message of the engine.
var metadataFile = regexp.MustCompile(`[^\s'"()]+\.sql\b`)

// explainStartError adds the engine's last output to a start error.
func explainStartError(err error, dir, cause string) error {
	if cause == "" {
		return err
	}
	file := metadataFile.FindString(cause)
	if file == "" {
		return fmt.Errorf("%w: %s", err, cause)
	}
	name := strings.TrimSuffix(filepath.Base(file), ".sql")
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, "clickhouse", file)
	}
	// The original error is less specific.
	return fmt.Errorf("engine: start: %w", &MetadataError{File: file, Name: name, Cause: cause})
}
