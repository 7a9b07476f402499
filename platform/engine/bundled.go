package engine

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// LibraryVersion returns the version of the libchdb package that this build loads on this platform, such as
// "26.7.3-stable.1". It returns "" where no package is known.
func LibraryVersion() string {
	for line := range strings.Lines(pinned) {
		if fields := strings.Fields(line); len(fields) == 4 && fields[0] == runtime.GOOS+"/"+runtime.GOARCH {
			return fields[2]
		}
	}
	return ""
}

// libraryPath returns the path of the library below a directory of libraries. The version is part of it, so an
// upgraded program never loads the library of another version.
func (p pin) libraryPath(dir string) string {
	return filepath.Join(dir, p.version, strings.ReplaceAll(p.platform, "/", "-"), "libchdb.so")
}

// bundledLibrary returns the path of a library that was installed with the program executable: in libchdb next to it
// (the offline bundle), or in ../lib/muster/libchdb (packages). It returns "" if there is none.
func bundledLibrary(p pin, executable string) string {
	dir := filepath.Dir(executable)
	for _, libraries := range []string{"libchdb", filepath.Join("..", "lib", "muster", "libchdb")} {
		path := p.libraryPath(filepath.Join(dir, libraries))
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}
