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

// nodeEnv and storeEnv name the environment variables with the URL of OpenSearch and the DSN of the read models, both
// filled, if the parent process has started them (TestFaults_AreDetected).
const (
	nodeEnv  = "MUSTER_TEST_SEARCH_NODE"
	storeEnv = "MUSTER_TEST_SEARCH_STORE"
	// failuresEnv names the environment variable that is 1 if the first difference ends the test.
	failuresEnv = "MUSTER_TEST_SEARCH_FAILURES"
)

// people is the size of the sample data.
const people = 3400

// Shared by the tests with OpenSearch, set by TestMain.
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
