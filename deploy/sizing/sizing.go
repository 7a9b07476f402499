package sizing

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Measured is what benchmarks.md says of this program. Sizes are in bytes, times in seconds of one core.
type Measured struct {
	TableBytes    float64 // of a person in all tables but search_people
	SearchBytes   float64 // of a profile in search_people
	Profiles      float64 // of a person: those who have one
	RecordBytes   float64 // of a person's records, as JSON
	LogBytes      float64 // of a person's records, as the broker's log holds them
	ProjectRate   float64 // records that a core projects in a second
	ProjectRecord float64 // bytes of such a record
	EnrichCPU     float64 // of one call: engine and API
}

// Figures are those of benchmarks.md.
func Figures() Measured {
	const people, profiles, record = 1e6, 820_871, 3.0e3
	return Measured{
		TableBytes:    (1190+1360+288+253+547+7+17+69+905)*1e6/people + 50e6/1e5,
		SearchBytes:   1715e6 / profiles,
		Profiles:      profiles / people,
		RecordBytes:   6.2e9 / people,
		LogBytes:      2.7e9 / people,
		ProjectRate:   2351,
		ProjectRecord: record,
		EnrichCPU:     (2.14 + 0.58) / 1e3,
	}
}

// Plan is what is chosen, and can be chosen otherwise.
type Plan struct {
	Replicas      float64 // of a shard
	Full          float64 // share of a disk that is used: a replay and merges need the rest
	KafkaReplicas float64
	KafkaVersions float64 // versions of a record that wait for compaction, the newest included
	FirstLoad     float64 // seconds in which the first crawl is projected
	Busy          float64 // share of a core that may be used at the peak
	NodeCores     float64
	NodeMemory    float64 // GiB
	NodeDisk      float64 // bytes
	HotShare      float64 // share of a node's data that should be in memory
	// Prices of a month, in dollars.
	CorePrice, GiBPrice, GBPrice float64
}

// Defaults is the plan of the page.
func Defaults() Plan {
	return Plan{
		Replicas: 2, Full: 0.5, KafkaReplicas: 3, KafkaVersions: 2, FirstLoad: 3 * 86400, Busy: 0.5,
		NodeCores: 16, NodeMemory: 64, NodeDisk: 4e12, HotShare: 0.05, CorePrice: 25, GiBPrice: 3, GBPrice: 0.1,
	}
}

// Need is how much hardware there has to be.
type Need struct {
	People, CallsPerSecond float64

	DataBytes  float64 // of one copy of all tables
	Shards     float64
	ShardBytes float64
	// MemoryBytes is what a node should have for the hot part of its shard.
	MemoryBytes float64
	KafkaBytes  float64 // of all brokers' logs
	LoadCores   float64 // while the first crawl is projected
	MonthCores  float64 // for a refresh of everybody each month, on average
	CallCores   float64 // at the peak of calls
	Nodes       float64 // of ClickHouse
	OtherCores  float64 // of brokers, Keepers and services
	Dollars     float64 // a month
}

// Size does the arithmetic.
func Size(m Measured, p Plan, people, calls float64) Need {
	n := Need{People: people, CallsPerSecond: calls}
	n.DataBytes = people * (m.TableBytes + m.Profiles*m.SearchBytes)
	cpu := m.RecordBytes / (m.ProjectRate * m.ProjectRecord) // of projecting a person's records
	n.LoadCores = people * cpu / p.FirstLoad
	n.MonthCores = people * cpu / (30 * 86400)
	n.CallCores = calls * m.EnrichCPU / p.Busy
	// Disks, memory, or cores, whichever wants more shards; every replica projects, and they share the calls.
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
	n.Dollars = n.Nodes*(p.NodeCores*p.CorePrice+p.NodeMemory*p.GiBPrice) + n.OtherCores*(p.CorePrice+4*p.GiBPrice) + disk/1e9*p.GBPrice
	return n
}

// Needs is the page's table: 10 million, 100 million and 1 billion people.
func Needs(m Measured, p Plan) []Need {
	return []Need{Size(m, p, 10e6, 50), Size(m, p, 100e6, 250), Size(m, p, 1e9, 1000)}
}

// Markdown renders needs as a table.
func Markdown(needs []Need) string {
	var b strings.Builder
	row := func(name string, value func(Need) string) {
		b.WriteString("| " + name + " |")
		for _, n := range needs {
			b.WriteString(" " + value(n) + " |")
		}
		b.WriteString("\n")
	}
	row("people", func(n Need) string { return grouped(n.People/1e6) + " million" })
	b.WriteString("|---|" + strings.Repeat("---|", len(needs)) + "\n")
	row("enrichment calls a second, at the peak", func(n Need) string { return grouped(n.CallsPerSecond) })
	row("tables, one copy", func(n Need) string { return size(n.DataBytes) })
	row("cores that project the first crawl in 3 days", func(n Need) string { return short(n.LoadCores) })
	row("cores that refresh everybody in a month, on average", func(n Need) string { return short(n.MonthCores) })
	row("cores for the calls, half busy", func(n Need) string { return short(n.CallCores) })
	row("**shards, of 2 replicas**", func(n Need) string { return "**" + grouped(n.Shards) + "**" })
	row("data of a node", func(n Need) string { return size(n.ShardBytes) })
	row("of it hot, to be in its memory", func(n Need) string { return size(n.MemoryBytes) })
	row("ClickHouse nodes (16 cores, 64 GiB)", func(n Need) string { return grouped(n.Nodes) })
	row("Kafka's logs, all brokers", func(n Need) string { return size(n.KafkaBytes) })
	row("cores of brokers, Keepers and services", func(n Need) string { return grouped(n.OtherCores) })
	row("**dollars a month**", func(n Need) string { return "**" + grouped(math.Round(n.Dollars/100)*100) + "**" })
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
