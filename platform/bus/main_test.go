package bus_test

import (
	"os"
	"testing"

	"muster/platform/bus/bustest"
)

// cluster is the Kafka cluster shared by the tests of this package.
var cluster *bustest.Cluster

func TestMain(m *testing.M) { os.Exit(bustest.Main(m, &cluster)) }

func TestPubSubUnordered(t *testing.T)    { bustest.PubSubUnordered(t, cluster) }
func TestPubSubOrdered(t *testing.T)      { bustest.PubSubOrdered(t, cluster) }
func TestPubSubWithoutGroup(t *testing.T) { bustest.PubSubWithoutGroup(t, cluster) }
func TestTopics(t *testing.T)             { bustest.Topics(t, cluster) }
func TestBatchConsumer(t *testing.T)      { bustest.BatchConsumer(t, cluster) }
