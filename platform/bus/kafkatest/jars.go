package kafkatest

import (
	"context"
	_ "embed"
	"path/filepath"

	"muster/platform/javatest"
)

//go:embed pom.xml
var pom []byte

// fetchJars returns the folder of the server's jars, filled once for each version of
// pom.xml.
func fetchJars(ctx context.Context) (string, error) {
	dir, err := javatest.Folder("kafka", [][]byte{pom}, func(dir string) error { return javatest.FetchJars(ctx, dir, pom) })
	return filepath.Join(dir, "jars"), err
}
