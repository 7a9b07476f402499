package ingest_test

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muster/ingest"
	"muster/platform/broker/brokertest"
	"muster/platform/bus"
	"muster/schemas/record"
)

// benchPeople returns n network people of about 1.6 KB, as a crawler produces them.
func benchPeople(n int) []byte {
	var b bytes.Buffer
	summary := strings.Repeat("Builds streaming systems and likes quiet mornings. ", 6)
	for i := range n {
		fmt.Fprintf(
			&b,
			`{"profile_id":"p_%d","last_updated":"2026-10-01T12:00:00Z","username":"amara-okonkwo-%x",`+
				`"first_name":"Amara","last_name":"Okonkwo","full_name":"Amara Okonkwo","headline":"Engineer %d `+
				`at Harmattan","summary":"%s",`,
			i, i*7919, i, summary,
		)
		b.WriteString(
			`"location":{"city":"Lagos","country":"Nigeria","country_code":"NG","continent":"Africa"},` +
				`"connections":500,"followers":1200,`,
		)
		b.WriteString(
			`"experience":[{"title":"Engineer","start":"2019-05","current":true,"company":{"name":"Harmattan",` +
				`"network_url":"https://network.example/company/harmattan","company_id":"c_1"}},` +
				`{"title":"Developer","start":"2015","end":"2019-04","description":"Payments, ledgers and ` +
				`everything between them.","company":{"name":"Kora","company_id":"c_2"}},{"title":"Intern",` +
				`"start":"2014-06","end":"2014-09","company":{"name":"Tide","company_id":"c_3"}}],`,
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
				`"personal_email":"amara%d@mail.example"}`+"\n",
			i, i, i,
		)
	}
	return b.Bytes()
}

// BenchmarkFiles measures ingesting a file with an embedded broker in the same process: records and
// uncompressed megabytes per second, and per CPU second, including the broker's.
func BenchmarkFiles(b *testing.B) {
	const n = 100_000
	text := benchPeople(n)
	forms := []struct {
		name    string
		content []byte
	}{{"plain", text}, {"gzip", gzipped(b, text)}, {"zstd", zstded(b, text)}}
	for _, form := range forms {
		b.Run(form.name, func(b *testing.B) {
			path := write(b, "people", form.content)
			cfg := ingest.Config{Bus: bus.Config{Brokers: brokertest.Start(b).Addrs()}}
			_, err := ingest.Files(b.Context(), cfg, ingest.Deps{}, record.KindNetworkPerson, []string{path})
			require.NoError(b, err) // creates the topics
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			cpu := cpuTime(b)
			for b.Loop() {
				s, err := ingest.Files(b.Context(), cfg, ingest.Deps{}, record.KindNetworkPerson, []string{path})
				require.NoError(b, err)
				require.Equal(b, int64(n), s.Total().Published)
			}
			records := float64(b.N) * n
			b.ReportMetric(records/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(records/(cpuTime(b)-cpu).Seconds(), "records/cpu-s")
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
