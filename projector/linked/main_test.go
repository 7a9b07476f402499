package linked_test

import (
	"os"
	"testing"

	"muster/platform/engine/enginetest"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }
