//go:build opensearch

package differential_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"muster/platform/engine/enginetest"
	"muster/query-api/opensearchtest"
)

// nodeEnv and storeEnv name the judge's URL and the read models' DSN, both with the people in them, when the process
// that runs these tests has started them already (TestFaults).
const (
	nodeEnv  = "MUSTER_TEST_SEARCH_NODE"
	storeEnv = "MUSTER_TEST_SEARCH_STORE"
	// failuresEnv is 1 when the first difference is enough.
	failuresEnv = "MUSTER_TEST_SEARCH_FAILURES"
)

// people of the generated world.
const people = 3400

// Shared by the tests that ask OpenSearch, set by TestMain.
var (
	node    *opensearchtest.Node
	queries        = 5000
	seed    uint64 = 1
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	if code, isChild := enginetest.RunIfChild(); isChild {
		return code
	}
	var err error
	if s := os.Getenv("MUSTER_TEST_SEARCH"); s != "" {
		if queries, err = strconv.Atoi(s); err != nil {
			fmt.Fprintln(os.Stderr, "MUSTER_TEST_SEARCH:", err)
			return 1
		}
	}
	if s := os.Getenv("MUSTER_TEST_SEARCH_SEED"); s != "" {
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			fmt.Fprintln(os.Stderr, "MUSTER_TEST_SEARCH_SEED:", err)
			return 1
		}
	}
	if url := os.Getenv(nodeEnv); url != "" {
		node = opensearchtest.Attach(url)
	} else if node, err = opensearchtest.Start(context.Background(), opensearchtest.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := node.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	return enginetest.Main(m)
}
