package kafkatest

import (
	"context"
	_ "embed"
	"path/filepath"

	"muster/platform/javatest"
)

//go:embed pom.xml
var pom []byte

// fetchJars returns the directory of the server's jars. They are downloaded once for each version of pom.xml.
func fetchJars(ctx context.Context) (string, error) {
	fill := func(dir string) error { return javatest.FetchJars(ctx, dir, pom) }
	dir, err := javatest.Dir("kafka", [][]byte{pom}, fill)
	return filepath.Join(dir, "jars"), err
}
