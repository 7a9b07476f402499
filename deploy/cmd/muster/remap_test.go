package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/broker/brokertest"
)

// The command is run by a shell.
func TestIngest_ConflictHintNamesTheCommandThatReplaces(t *testing.T) {
	dir := t.TempDir()
	c := cli{t: t, env: map[string]string{
		"KAFKA_BROKERS": brokertest.Start(t).Addrs()[0], "MUSTER_SECRET_KEY": strings.Repeat("mappings change and ", 3),
	}}
	const before = `record("network-person"; {profile_id: .id, username: .nick, last_updated: .day})`
	const after = `record("network-person"; {profile_id: .id, username: .nick, headline: .job, last_updated: .day})`
	var rows strings.Builder
	rows.WriteString("id,nick,job,day\n")
	for i := range 40 {
		fmt.Fprintf(&rows, "mc-%d,mapped-%d,Weaver,2026-02-01\n", i, i)
	}
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	people, changed := file("it's people.csv", rows.String()), file("after.jq", after)
	data := filepath.Join(dir, "data")
	out, _ := c.run(0, "ingest", "--map", file("before.jq", before), people, "--data-dir", data)
	require.NotContains(t, out, "--remap")
	out, _ = c.run(0, "ingest", "--map", changed, people, "--data-dir", data)
	require.Contains(t, out, "40 records have a published version, but other content")
	quoted := "'" + strings.ReplaceAll(people, "'", `'\''`) + "'"
	require.Contains(t, out, "\n  muster ingest --data-dir "+data+" --map "+changed+" --remap "+quoted+"\n")
	out, _ = c.run(0, "ingest", "--data-dir", data, "--map", changed, "--remap", people)
	require.NotContains(t, out, "other content")
	out, _ = c.run(0, "ingest", "--data-dir", data, "--map", changed, "--remap", people, "--json")
	require.Contains(t, out, `"conflicting": 0`)
	_, problem := c.run(2, "ingest", "--resume", "--remap", "--data-dir", data)
	require.Contains(t, problem, "--resume cannot be combined with")
}
