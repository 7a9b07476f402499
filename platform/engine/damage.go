package engine

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// MetadataError says that the engine does not start because it cannot read a file that defines a table or a database.
type MetadataError struct {
	File  string // its path
	Name  string // of the table or database
	Cause string // in the engine's words
}

func (e *MetadataError) Error() string {
	return fmt.Sprintf("the definition of %s cannot be read from %s (%s)", e.Name, e.File, e.Cause)
}

// metadataFile is the path of a definition within what the engine says.
var metadataFile = regexp.MustCompile(`[^\s'"()]+\.sql\b`)

// explain makes an error of what the engine wrote when it did not start.
func explain(err error, dir, cause string) error {
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
	return fmt.Errorf("engine: start: %w", &MetadataError{File: file, Name: name, Cause: cause}) // err says less
}
