package e2e_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"muster/deploy/e2e/internal/oracle"
)

// kinds are the record kinds, in the order of ingestion.
var kinds = []string{
	oracle.NetworkCompany, oracle.NetworkPerson, oracle.CodehostPerson, oracle.CodehostRepo, oracle.CodehostCommit,
	oracle.MicroblogPerson, oracle.AccountLink,
}

func file(dir, kind string) string { return filepath.Join(dir, kind+".ndjson") }

// generate generates a data set with the binary.
func generate(t *testing.T, people int, seed uint64) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "world")
	r, err := muster(t.Context(), t.TempDir(), "generate", "--people", itoa(people), "--seed",
		strconv.FormatUint(seed, 10), "--out", dir)
	require.NoError(t, err)
	require.Zero(t, r.status, r.errors)
	t.Logf("%d people generated in %s", people, r.took.Round(time.Millisecond))
	return dir
}

// lines calls do for each line of a file. Lines share the memory of the whole file.
func lines(path string, do func(line []byte) error) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(raw) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := do(line); err != nil {
			return err
		}
	}
	return nil
}

// load creates an oracle with the records in directories.
func load(t *testing.T, dirs ...string) *oracle.Store {
	t.Helper()
	began := time.Now()
	store := oracle.New()
	var group errgroup.Group
	for _, dir := range dirs {
		for _, kind := range kinds {
			group.Go(func() error {
				return lines(file(dir, kind), func(line []byte) error { return store.Add(kind, line) })
			})
		}
	}
	require.NoError(t, group.Wait())
	require.NoError(t, store.Seal())
	t.Logf("the oracle loaded the records in %s", time.Since(began).Round(time.Millisecond))
	return store
}

// truth is the content of a truth file.
type truth struct {
	// handles by platform; the holder is the identity, or "" for no match.
	handles map[string][]handle
	emails  []email
	// identities that exist, by platform.
	identities map[string][]string
	// withdrawn are the deleted identities, by platform.
	withdrawn map[string][]string
	// networkIDs of companies by company_id.
	networkIDs map[string]string
}

type handle struct{ name, holder string }

type email struct {
	address, network, codehost, newest string
	shared                             bool
}

func readTruth(t *testing.T, dir string) truth {
	t.Helper()
	tr := truth{handles: map[string][]handle{}, identities: map[string][]string{}, withdrawn: map[string][]string{},
		networkIDs: map[string]string{}}
	require.NoError(t, lines(filepath.Join(dir, "truth.ndjson"), func(raw []byte) error {
		var l struct {
			Type      string `json:"type"`
			Platform  string `json:"platform"`
			Handle    string `json:"handle"`
			Holder    string `json:"holder"`
			Email     string `json:"email"`
			Network   string `json:"network"`
			Codehost  string `json:"codehost"`
			Newest    string `json:"newest"`
			Shared    bool   `json:"shared"`
			NetworkID string `json:"network_id"`
			Accounts  []struct {
				Platform  string `json:"platform"`
				Identity  string `json:"identity"`
				Withdrawn bool   `json:"withdrawn"`
			} `json:"accounts"`
		}
		if err := json.Unmarshal(raw, &l); err != nil {
			return err
		}
		switch l.Type {
		case "handle":
			tr.handles[l.Platform] = append(tr.handles[l.Platform], handle{l.Handle, l.Holder})
		case "email":
			tr.emails = append(tr.emails, email{l.Email, l.Network, l.Codehost, l.Newest, l.Shared})
		case "entity":
			for _, a := range l.Accounts {
				if a.Withdrawn {
					tr.withdrawn[a.Platform] = append(tr.withdrawn[a.Platform], a.Identity)
					continue
				}
				tr.identities[a.Platform] = append(tr.identities[a.Platform], a.Identity)
				if a.Platform == oracle.NetworkCompany && l.NetworkID != "" {
					tr.networkIDs[a.Identity] = l.NetworkID
				}
			}
		}
		return nil
	}))
	return tr
}

// ingestAll ingests the files of a directory with the binary and waits until all of it is visible.
func ingestAll(t *testing.T, p *platform, dir string) {
	t.Helper()
	began := time.Now()
	for _, kind := range kinds {
		p.muster(t, "ingest", kind, file(dir, kind))
	}
	published := time.Since(began)
	p.muster(t, "status", "--wait", "--timeout", "3m")
	t.Logf("ingested in %s, visible in %s", published.Round(time.Millisecond),
		time.Since(began).Round(time.Millisecond))
}
