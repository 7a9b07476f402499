package clause_test

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the page of the documentation")
	flag.Parse()
	os.Exit(m.Run())
}
