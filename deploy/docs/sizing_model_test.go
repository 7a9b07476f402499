package docs_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// measurements are measurements from benchmarks.md. Sizes are in bytes, times in seconds of one core.
type measurements struct {
	TableBytes    float64 // per person, in all tables but search_people
	SearchBytes   float64 // per profile, in search_people
	Profiles      float64 // per person: share of people with a profile
	RecordBytes   float64 // of a person's records, as JSON
	LogBytes      float64 // of a person's records, in the log of the broker
	ProjectRate   float64 // projected records per core and second
	ProjectRecord float64 // bytes of such a record
	EnrichCPU     float64 // per call, engine and API
}

// measuredFigures returns the measurements in benchmarks.md.
func measuredFigures() measurements {
	const people, profiles, record = 1e6, 820_871, 3.0e3
	return measurements{
		TableBytes:    (1190+1360+288+253+547+7+17+69+905)*1e6/people + 50e6/1e5,
		SearchBytes:   1977e6 / profiles,
		Profiles:      profiles / people,
		RecordBytes:   6.2e9 / people,
		LogBytes:      2.7e9 / people,
		ProjectRate:   2351,
		ProjectRecord: record,
		EnrichCPU:     (0.280 + 0.227) / 1e3,
	}
}

// plan are the assumptions, which a user can change.
type plan struct {
	Replicas      float64 // per shard
	Full          float64 // used share of a disk; replays and merges need the rest
	KafkaReplicas float64
	KafkaVersions float64 // versions of a record before compaction, including the newest
	FirstLoad     float64 // duration of projecting the first crawl, in seconds
	Busy          float64 // maximum used share of a core at the peak
	NodeCores     float64
	NodeMemory    float64 // GiB
	NodeDisk      float64 // bytes
	HotShare      float64 // share of a node's data that should be in memory
	// Monthly prices in dollars.
	CorePrice, GiBPrice, GBPrice float64
}

// defaultPlan returns the assumptions of the page.
func defaultPlan() plan {
	return plan{
		Replicas: 2, Full: 0.5, KafkaReplicas: 3, KafkaVersions: 2, FirstLoad: 3 * 86400, Busy: 0.5,
		NodeCores: 16, NodeMemory: 64, NodeDisk: 4e12, HotShare: 0.05, CorePrice: 25, GiBPrice: 3, GBPrice: 0.1,
	}
}

// need is the required hardware.
type need struct {
	People, CallsPerSecond float64

	DataBytes  float64 // one copy of all tables
	Shards     float64
	ShardBytes float64
	// MemoryBytes is the memory of a node for the hot part of its shard.
	MemoryBytes float64
	KafkaBytes  float64 // logs of all brokers
	LoadCores   float64 // while the first crawl is projected
	MonthCores  float64 // average for a monthly refresh of all people
	CallCores   float64 // at the peak of calls
	Nodes       float64 // ClickHouse nodes
	OtherCores  float64 // brokers, Keepers and services
	Dollars     float64 // per month
}

// sizeOf computes the hardware for a number of people and calls per second.
func sizeOf(m measurements, p plan, people, calls float64) need {
	n := need{People: people, CallsPerSecond: calls}
	n.DataBytes = people * (m.TableBytes + m.Profiles*m.SearchBytes)
	cpu := m.RecordBytes / (m.ProjectRate * m.ProjectRecord) // to project a person's records
	n.LoadCores = people * cpu / p.FirstLoad
	n.MonthCores = people * cpu / (30 * 86400)
	n.CallCores = calls * m.EnrichCPU / p.Busy
	// Disk, memory or cores, whichever needs the most shards. Every replica projects; replicas share the calls.
	byDisk := n.DataBytes / (p.NodeDisk * p.Full)
	byMemory := n.DataBytes * p.HotShare / (p.NodeMemory * (1 << 30) * 0.5)
	byCores := (n.CallCores + n.MonthCores*p.Replicas) / (p.NodeCores * p.Replicas)
	byLoad := n.LoadCores / p.NodeCores
	n.Shards = math.Ceil(max(byDisk, byMemory, byCores, byLoad))
	n.ShardBytes = n.DataBytes / n.Shards
	n.MemoryBytes = n.ShardBytes * p.HotShare
	n.Nodes = n.Shards * p.Replicas
	n.KafkaBytes = people * m.LogBytes * p.KafkaVersions * p.KafkaReplicas
	n.OtherCores = 3*4 + 3*1 + 5*2*2 + math.Ceil(calls/500)*2 // brokers, Keepers, services, and API for the calls
	disk := n.Nodes*n.ShardBytes/p.Full + n.KafkaBytes/p.Full
	n.Dollars = n.Nodes*(p.NodeCores*p.CorePrice+p.NodeMemory*p.GiBPrice) + n.OtherCores*(p.CorePrice+4*p.GiBPrice) +
		disk/1e9*p.GBPrice
	return n
}

// needs returns the table of the page: 10 million, 100 million and 1 billion people.
func needs(m measurements, p plan) []need {
	return []need{sizeOf(m, p, 10e6, 50), sizeOf(m, p, 100e6, 250), sizeOf(m, p, 1e9, 1000)}
}

// needsTable renders needs as a table.
func needsTable(needs []need) string {
	var b strings.Builder
	row := func(name string, value func(need) string) {
		b.WriteString("| " + name + " |")
		for _, n := range needs {
			b.WriteString(" " + value(n) + " |")
		}
		b.WriteString("\n")
	}
	row("people", func(n need) string { return grouped(n.People/1e6) + " million" })
	b.WriteString("|---|" + strings.Repeat("---|", len(needs)) + "\n")
	row("enrichment calls a second, at the peak", func(n need) string { return grouped(n.CallsPerSecond) })
	row("tables, one copy", func(n need) string { return size(n.DataBytes) })
	row("cores that project the first crawl in 3 days", func(n need) string { return short(n.LoadCores) })
	row("cores to refresh all people in a month, on average", func(n need) string { return short(n.MonthCores) })
	row("cores for the calls, half busy", func(n need) string { return short(n.CallCores) })
	row("**shards, of 2 replicas**", func(n need) string { return "**" + grouped(n.Shards) + "**" })
	row("data of a node", func(n need) string { return size(n.ShardBytes) })
	row("of it hot, to be in its memory", func(n need) string { return size(n.MemoryBytes) })
	row("ClickHouse nodes (16 cores, 64 GiB)", func(n need) string { return grouped(n.Nodes) })
	row("Kafka's logs, all brokers", func(n need) string { return size(n.KafkaBytes) })
	row("cores of brokers, Keepers and services", func(n need) string { return grouped(n.OtherCores) })
	row("**dollars a month**", func(n need) string { return "**" + grouped(math.Round(n.Dollars/100)*100) + "**" })
	return b.String()
}

func grouped(v float64) string {
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func short(v float64) string {
	if v >= 10 {
		return grouped(math.Round(v))
	}
	return fmt.Sprintf("%.2g", v)
}

func size(bytes float64) string {
	if bytes >= 1e12 {
		return fmt.Sprintf("%.1f TB", bytes/1e12)
	}
	return fmt.Sprintf("%.0f GB", bytes/1e9)
}
