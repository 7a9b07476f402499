package e2e_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"muster/platform/bus"
	"muster/schemas/event"
)

// uniqueIdentifiers returns the identifiers of subjects that no one else has: profile IDs and addresses, in lower
// case. A username may occur in other people's records.
func uniqueIdentifiers(all []subject) map[string]bool {
	out := make(map[string]bool)
	for _, s := range all {
		out[strings.ToLower(s.ids["network"])] = true
		for _, e := range s.emails {
			out[strings.ToLower(e)] = true
		}
	}
	return out
}

// eachMention calls found for each of the words in a text.
func eachMention(text []byte, wanted map[string]bool, found func(word string)) {
	for token := range bytes.FieldsFuncSeq(bytes.ToLower(text), func(r rune) bool {
		return r <= ' ' || strings.ContainsRune(`"',:;<>()[]{}\/=&?|`, r) || r == 0x7f || r == '�'
	}) {
		if word := string(bytes.Trim(token, ".!")); wanted[word] {
			found(word)
		}
	}
}

// inTables searches every row of every table for subjects.
func inTables(t *testing.T, p *platform, all []subject) {
	t.Helper()
	wanted := uniqueIdentifiers(all)
	for _, table := range p.sql(t,
		"SELECT name FROM system.tables WHERE database = currentDatabase() AND NOT is_temporary AND engine NOT LIKE "+
			"'%View'") {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.ClickHouseURL,
			strings.NewReader("SELECT * FROM "+table+" FORMAT JSONEachRow"))
		require.NoError(t, err)
		req.URL.Path, req.URL.RawQuery = "/", "database=muster"
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		rows := 0
		for in := bufio.NewReaderSize(resp.Body, 1<<20); ; rows++ {
			line, err := in.ReadBytes('\n')
			eachMention(line, wanted,
				func(word string) { t.Errorf("%s is in the table %s: %s", word, table, line[:min(len(line), 300)]) })
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
		}
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode, table)
	}
}

// transient reports whether a topic is not compacted. Requests and responses are retained there for 7 days, dead
// letters and rejected records for 30.
func transient(topic string) bool {
	for _, d := range event.Topics() {
		if d.Name == topic {
			return !d.Compacted && d.Retention > 0
		}
	}
	return strings.HasPrefix(topic, "muster.dead.")
}

// inTopics searches every message of every topic, except transient ones, for subjects.
func inTopics(t *testing.T, p *platform, all []subject) {
	t.Helper()
	wanted := uniqueIdentifiers(all)
	accounts := make(map[string]bool)
	for _, s := range all {
		accounts[s.ids["codehost"]] = true
	}
	messages := 0
	for _, d := range event.Topics() {
		if transient(d.Name) {
			continue
		}
		require.NoError(t, bus.Scan(t.Context(), p.bus(t), []string{d.Name}, func(m kafka.Message) error {
			messages++
			eachMention(append(append(m.Key, '\n'), m.Value...), wanted, func(word string) {
				t.Errorf("%s is in %s, partition %d, offset %d, tombstone %v", word, d.Name, m.Partition, m.Offset,
					m.Value == nil)
			})
			if id, _, _ := strings.Cut(string(m.Key), "/"); strings.HasPrefix(d.Name, "muster.record.codehost-") &&
				accounts[id] {
				t.Errorf("account %s is in %s, partition %d, offset %d, tombstone %v", id, d.Name, m.Partition,
					m.Offset, m.Value == nil)
			}
			return nil
		}))
	}
	t.Logf("searched %d messages", messages)
}

// inFiles searches every file of the data directory, except those of transient topics, for subjects.
func inFiles(t *testing.T, dir string, all []subject) {
	t.Helper()
	wanted := uniqueIdentifiers(all)
	var files, size int
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // removed by the engine
		}
		for _, topic := range event.Topics() {
			if transient(topic.Name) && strings.Contains(path, topic.Name) {
				return nil
			}
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		files, size = files+1, size+len(raw)
		// Binary files have no white space around words: trim other bytes too.
		eachMention(bytes.Map(func(r rune) rune {
			if r < ' ' || r == 0xfffd {
				return ' '
			}
			return r
		}, raw), wanted, func(word string) { t.Errorf("%s is in %s", word, path) })
		return nil
	}))
	t.Logf("searched %d files with %d bytes", files, size)
}

// erasureTargets has the IDs, as SQL lists, of the people that an erasure of the subjects matches: the subjects,
// and others with one of their usernames, such as the former holder of a recycled handle.
type erasureTargets struct{ profiles, users, microblogs string }

func erasureTargetsOf(t *testing.T, p *platform, all []subject) erasureTargets {
	t.Helper()
	list := func(platform, id, table string) string {
		out, names := []string{"'0'"}, []string{"''"}
		for _, s := range all {
			if s.ids[platform] != "" {
				out = append(out, "'"+s.ids[platform]+"'")
			}
			for _, h := range s.handles[platform] {
				names = append(names, "'"+strings.ToLower(h)+"'")
			}
		}
		for _, row := range p.sql(t, "SELECT DISTINCT toString("+id+") FROM "+table+" WHERE username_key IN ("+
			strings.Join(names, ",")+")") {
			if row != "" {
				out = append(out, "'"+row+"'")
			}
		}
		return strings.Join(out, ",")
	}
	return erasureTargets{
		list("network", "profile_id", "network_people"), list("codehost", "user_id", "codehost_people"),
		list("microblog", "user_id", "microblog_people"),
	}
}

// checksumOthers returns the count and a checksum of other people's rows. A newer version of unchanged content may
// be in the row or in seen_versions.
func checksumOthers(t *testing.T, p *platform, not erasureTargets) string {
	t.Helper()
	var out []string
	for _, q := range []struct{ columns, from string }{
		{"profile_id, content_hash, username, email_keys, splitByChar(char(0), content)[-1]",
			"network_people FINAL WHERE profile_id NOT IN (" + not.profiles},
		{"profile_id", "search_people FINAL WHERE profile_id NOT IN (" + not.profiles},
		{"user_id, content_hash, codehost_username, email_keys, content",
			"codehost_people FINAL WHERE toString(user_id) NOT IN (" + not.users},
		{"user_id, repo_id, content", "codehost_repos FINAL WHERE toString(user_id) NOT IN (" + not.users},
		{"company_id, content_hash", "network_companies FINAL WHERE company_id NOT IN (''"},
		{"user_id, content_hash, username, bio", "microblog_people FINAL WHERE user_id NOT IN (" + not.microblogs},
	} {
		out = append(out, p.sql(t, "SELECT count(), groupBitXor(cityHash64("+q.columns+")) FROM "+q.from+")")...)
	}
	return fmt.Sprint(out)
}
