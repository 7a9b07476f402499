package migrations_test

import (
	"flag"
	"os"
	"testing"

	"muster/platform/engine/enginetest"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write golden files")
	os.Exit(enginetest.Main(m))
}
