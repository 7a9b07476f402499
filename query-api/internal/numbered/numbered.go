// Package numbered names the files of a log that is kept in segments, and finds them again. It keeps nothing and
// guarantees nothing about what is in them.
package numbered

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Path is the path of the segment with a number. suffix tells its log from others.
func Path(dir string, number uint64, suffix string) string {
	return filepath.Join(dir, fmt.Sprintf("%016d%s", number, suffix))
}

// List gives the numbers of a folder's segments, the oldest first. A file with the suffix and another name is an error.
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
			return nil, fmt.Errorf("%s is not a segment's name", e.Name())
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers, nil
}
