package convert_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"muster/ingest/internal/convert"
	"muster/ingest/internal/publish"
	"muster/ingest/internal/source"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// benchChunks returns chunks of people of 1.6 KB, as a crawler produces them.
func benchChunks(n int) (chunks []*source.Chunk, records int) {
	const chunkSize = 256 << 10
	summary := strings.Repeat("Builds streaming systems and likes quiet mornings. ", 6)
	for range n {
		c, size := &source.Chunk{}, 0
		for size < chunkSize {
			i := records
			var b bytes.Buffer
			fmt.Fprintf(
				&b,
				`{"profile_id":"p_%d","last_updated":"2026-10-01T12:00:00Z","username":"amara-okonkwo-%x",`+
					`"first_name":"Amara","last_name":"Okonkwo","full_name":"Amara Okonkwo","headline":"Engineer `+
					`%d at Harmattan","summary":"%s",`,
				i, i*7919, i, summary,
			)
			b.WriteString(
				`"location":{"city":"Lagos","country":"Nigeria","country_code":"NG","continent":"Africa"},` +
					`"connections":500,"followers":1200,`,
			)
			b.WriteString(
				`"experience":[{"title":"Engineer","start":"2019-05","current":true,` +
					`"company":{"name":"Harmattan","network_url":"https://network.example/company/harmattan",` +
					`"company_id":"c_1"}},{"title":"Developer","start":"2015","end":"2019-04",` +
					`"description":"Payments, ledgers and everything between them.","company":{"name":"Kora",` +
					`"company_id":"c_2"}},{"title":"Intern","start":"2014-06","end":"2014-09",` +
					`"company":{"name":"Tide","company_id":"c_3"}}],`,
			)
			b.WriteString(
				`"education":[{"start":"2010","end":"2014","degrees":["bachelors"],"majors":["computer science"],` +
					`"school":{"name":"University of Nigeria","school_id":"s_1"}}],`,
			)
			b.WriteString(
				`"certifications":[{"name":"Streams","issuer":"Kafka Guild","issue_date":"2020-02"}],` +
					`"languages":[{"language":"English","proficiency":"native"},{"language":"Igbo"}],` +
					`"skills":[{"skill":"go"},{"skill":"kafka"},{"skill":"sql"},{"skill":"rust"}],`,
			)
			fmt.Fprintf(
				&b,
				`"social_accounts":["https://codehost.example/amara%d"],"emails":["amara%d@mail.example"],`+
					`"personal_email":"amara%d@mail.example"}`,
				i, i, i,
			)
			c.Lines = append(c.Lines, source.Line{Raw: b.Bytes(), Number: int64(i + 1)})
			size += b.Len() + 1
			records++
		}
		chunks = append(chunks, c)
	}
	return chunks, records
}

// BenchmarkSuppressed measures the cost of suppression lookups. Each round converts the same chunks
// without suppressed identifiers and with 5,000,000 identifiers that no record has, in turns. It
// reports CPU time per record.
func BenchmarkSuppressed(b *testing.B) {
	chunks, records := benchChunks(32)
	sets := [2]*suppress.Set{}
	for side, n := range []int{0, 5_000_000} {
		set := suppress.NewSet(suppress.NoKey())
		types, key := suppress.Types(), set.Key()
		for i := range n {
			t, sum := types[i%len(types)], suppress.Sum("unused-"+strconv.Itoa(i))
			value, err := json.Marshal(suppress.Entry{
				Type: t, Scope: suppress.All, RequestedAt: "2026-01-01", Key: key.ID(), Mark: key.Mark(t, sum),
			})
			require.NoError(b, err)
			require.NoError(b, set.Apply([]byte(key.Hash(t, sum).String()), value))
		}
		sets[side] = set
	}
	publisher := publish.New(b.Context(), nil, 3, publish.Options{}) // nothing is written
	b.Cleanup(func() { require.NoError(b, publisher.Close()) })
	var cpu [2]time.Duration
	round := func(side int) {
		c := convert.New(
			convert.Config{Kind: record.KindNetworkPerson, Run: "r", File: "f", Now: time.Now, Suppressed: sets[side]},
		)
		began := processorTime(b)
		for _, chunk := range chunks {
			if _, err := c.Chunk(b.Context(), chunk, publisher.NewBatch(func(error) {})); err != nil {
				b.Fatal(err)
			}
		}
		cpu[side] += processorTime(b) - began
	}
	round(0)
	round(1)
	cpu = [2]time.Duration{}
	rounds := 0
	for b.Loop() {
		round(rounds % 2)
		round(1 - rounds%2)
		rounds++
	}
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(rounds*records) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(each(cpu[0]), "ns/record-empty-set")
	b.ReportMetric(each(cpu[1]), "ns/record-5M")
	b.ReportMetric(each(cpu[1]-cpu[0]), "ns/record-difference")
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
