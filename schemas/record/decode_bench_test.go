package record_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/schemas/record"
)

// BenchmarkDecode measures the hot path of ingest and projector: checks, identity, version, hash and compact JSON, in
// MB of input per second on one core.
func BenchmarkDecode(b *testing.B) {
	run := func(name string, kind record.Kind, raw []byte, split bool) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				r, err := record.Decode(kind, raw)
				if err != nil {
					b.Fatal(err)
				}
				if split {
					r.SplitEmbedded()
				}
			}
			spent := cpuTime(b) - before
			b.ReportMetric(float64(len(raw))*float64(b.N)/1e6/spent.Seconds(), "MB/cpu-s")
		})
	}
	example := func(file string) []byte {
		raw, err := os.ReadFile("testdata/" + file)
		require.NoError(b, err)
		return bytes.TrimSpace(raw)
	}
	person := example("network-person/full.json")
	run("network-person", record.KindNetworkPerson, person, false)
	run("network-person with spaces", record.KindNetworkPerson, bytes.ReplaceAll(person, []byte(`,"`), []byte(`, "`)),
		false)
	run("network-company", record.KindNetworkCompany, example("network-company/full.json"), false)
	run("codehost-repo", record.KindCodehostRepo, example("codehost-repo/full.json"), false)
	run("codehost-commit", record.KindCodehostCommit, example("codehost-commit/full.json"), false)
	run("account-link", record.KindAccountLink, example("account-link/full.json"), false)
	run("codehost-person with 30 repositories", record.KindCodehostPerson, codehostPerson(30), true)
	run("codehost-person with 3000 repositories", record.KindCodehostPerson, codehostPerson(3000), true)
}

// cpuTime returns the CPU time of this process, which other processes do not distort.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func codehostPerson(repos int) []byte {
	list := make([]string, repos)
	for i := range list {
		list[i] = fmt.Sprintf(`{"id":%d,"name":"repo-%d","full_name":"jane/repo-%d","description":"Tools for number `+
			`%d","language":"Go","stargazers_count":%d,"forks_count":3,"topics":["go","tools"],`+
			`"created_at":"2019-02-03T04:05:06Z","updated_at":"2026-02-03T04:05:06Z"}`, i, i, i, i, i)
	}
	return []byte(`{"user_id":42,"codehost_username":"jane","last_updated":"2026-03-01T00:00:00Z","full_name":"Jane ` +
		`Doe","repos_complete":true,"repos":[` + strings.Join(list, ",") + `]}`)
}
