// Package segmentfile names and lists the segment files of a log.
package segmentfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Path returns the path of a segment. suffix identifies the log.
func Path(dir string, number uint64, suffix string) string {
	return filepath.Join(dir, fmt.Sprintf("%016d%s", number, suffix))
}

// List returns the numbers of the segments in a directory, oldest first. It returns an error if a file with the suffix
// has an invalid name.
func List(dir, suffix string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(name, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is not a valid segment name", e.Name())
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers, nil
}
