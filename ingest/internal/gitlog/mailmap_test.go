package gitlog

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// importHistory creates a bare repository with one commit per author "Name <address>", one minute apart.
func importHistory(t testing.TB, authors ...string) string {
	t.Helper()
	dir := bare(t)
	var b strings.Builder
	for i, a := range authors {
		fmt.Fprintf(
			&b,
			"commit refs/heads/main\nauthor %s %d +0000\ncommitter Build <build@forge.example> %d +0000\ndata 6\n"+
				"change\n",
			a, 1_700_000_000+60*i, 1_700_000_000+60*i,
		)
	}
	gitIn(t, dir, b.String(), "fast-import", "--quiet")
	return dir
}

// addMailmap commits a .mailmap to a repository of importHistory.
func addMailmap(t testing.TB, dir, text string) {
	t.Helper()
	gitIn(t, dir, fmt.Sprintf("commit refs/heads/main\nauthor Build <build@forge.example> 1800000000 +0000\n"+
		"committer Build <build@forge.example> 1800000000 +0000\ndata 7\nmailmap\nfrom refs/heads/main^0\nM "+
		"100644 inline .mailmap\ndata %d\n%s\n",
		len(text), text), "fast-import", "--quiet")
}

// mapped returns the mapped "name <address>" of each commit, newest first.
func mapped(t testing.TB, dir string, m mailmap) (all []string) {
	t.Helper()
	g := gitDir{dir, idleTimeout}
	c, err := g.commits(t.Context(), []string{"refs/heads/main"}, nil)
	require.NoError(t, err)
	for {
		commit, err := c.next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		a := m.lookup(commit.author)
		all = append(all, a.name+" <"+a.email+">")
	}
}

// Compared with git, for a file with all forms and for random ones.
func TestMailmap_MapsAsGitDoes(t *testing.T) {
	names := []string{"Ann", "ann", "ANN Bo", "Ann  Bo", "Ännä", "ÄNNÄ", "", "x # y", "Gate", "O'Neil, J."}
	emails := []string{"a@x", "A@X", "b@x", "b.c@Y.example", "", "not an address", "#@x", "a@x ", "ü@x", "Ü@x"}
	r := rand.New(rand.NewPCG(3, 4))
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	var authors []string
	for range 200 {
		authors = append(authors, strings.TrimSpace(pick(names)+" <"+pick(emails)+">"))
	}
	dir := importHistory(t, authors...)
	file := filepath.Join(t.TempDir(), "mailmap")
	check := func(text string) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		out := gitIn(t, dir, "", "-c", "mailmap.blob=", "-c", "mailmap.file="+file, "log", "--format=%aN <%aE>", "main")
		require.Equal(t, strings.Split(strings.TrimSuffix(out, "\n"), "\n"), mapped(t, dir, parseMailmap(text)), "%q",
			text)
	}
	check(
		"# comment\n#<b@x> <a@x>\nAnn B <ann@b>   # trailing comment\nProper <p@x> Ann <a@x>\n<q@x> <b@x>\nQ " +
			"<q@x> <not an address>\r\n" +
			"Empty <e@x> <>\nnothing\n<>\n <s@x> Gate <#@x>\nLast <l@x> GATE <#@X> <third@x>\nName Only " +
			"<b.c@y.example>",
	)
	for range 40 {
		var b strings.Builder
		for range r.IntN(25) {
			switch r.IntN(8) {
			case 0:
				fmt.Fprintf(&b, "%s <%s>", pick(names), pick(emails))
			case 1:
				fmt.Fprintf(&b, "<%s> <%s>", pick(emails), pick(emails))
			case 2, 3:
				fmt.Fprintf(&b, "%s\t<%s> <%s>", pick(names), pick(emails), pick(emails))
			case 4, 5, 6:
				fmt.Fprintf(&b, "%s <%s> %s <%s>", pick(names), pick(emails), pick(names), pick(emails))
			case 7:
				b.WriteString(
					[]string{"# no", " # <a@x> <b@x>", "Ann <a@x", "<a@x>trailing", "<<a@x>> <b@x>",
						"> <a@x> <"}[r.IntN(6)],
				)
			}
			b.WriteString([]string{"\n", "\r\n", "\n\n", " # why\n"}[r.IntN(4)])
		}
		check(b.String())
	}
}

func TestMailmap_DeterminesAccounts(t *testing.T) {
	for name, c := range map[string]struct {
		authors []string // oldest first
		mailmap string
		want    map[string]int // commits by proper address
	}{
		"name and address": {
			authors: []string{
				"Ilse Brandt <ilse@brandt.example>", "Ilse Brandt via Gate <gate@relay.example>", "Odd Moen via " +
					"Gate <gate@relay.example>",
				"Ilse Brandt via Gate <gate@relay.example>", "Odd Moen <odd@moen.example>", "Gate <gate@relay.example>",
			},
			mailmap: "Ilse Brandt <ilse@brandt.example> Ilse Brandt via Gate <gate@relay.example>\n" +
				"Odd Moen <odd@moen.example> Odd Moen via Gate <gate@relay.example>\n",
			want: map[string]int{"ilse@brandt.example": 3, "odd@moen.example": 2, "gate@relay.example": 1,
				"build@forge.example": 1},
		},
		"all forms": {
			authors: []string{
				"pim <pim@sloot.example>", "Pim de Sloot <pim@laptop.example>", "root <root@host.example>",
				"Sanne Vos <ROOT@host.example>",
				"S. Vos <sanne@old.example>", "Tess <tess@work.example>", "tess (laptop) <tess@work.example>",
			},
			mailmap: "# proper name for an address\nPim de Sloot <pim@sloot.example>   # trailing comment\n" +
				"<pim@sloot.example> <pim@laptop.example>\n" +
				"Sanne Vos <sanne@vos.example> <sanne@old.example>\nSanne Vos <sanne@vos.example> SANNE VOS " +
				"<root@host.example>\n" +
				"Wrong Name <tess@work.example>\nTess Hoek <tess@work.example>\n",
			want: map[string]int{
				"pim@sloot.example": 2, "sanne@vos.example": 2, "tess@work.example": 2, "root@host.example": 1,
				"build@forge.example": 1,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := importHistory(t, c.authors...)
			addMailmap(t, dir, c.mailmap)
			all, err := read(t, dir, Options{MakeAccounts: true})
			require.NoError(t, err)
			got := map[string]int{}
			for _, commit := range all.commits {
				for _, p := range all.people {
					if *p.UserID == *commit.UserID {
						got[p.Emails[0]]++
					}
				}
			}
			require.Equal(t, c.want, got)
			shortlog := gitIn(t, dir, "", "shortlog", "-sne", "--all")
			for _, p := range all.people {
				require.Contains(t, shortlog, fmt.Sprintf("%6d\t%s <%s>\n", got[p.Emails[0]], p.FullName, p.Emails[0]))
			}
			// An address used by several authors belongs only to its owner.
			seen := map[string]bool{}
			for _, p := range all.people {
				for _, e := range p.Emails {
					require.False(t, seen[e], e)
					seen[e] = true
				}
			}
		})
	}
}

func TestLog_ProperAddressComesFirst(t *testing.T) {
	dir := importHistory(t, "Tove Lund <tove@zeta.example>", "Tove Lund <tove@alpha.example>",
		"tlund <tlund@(none).example>")
	addMailmap(t, dir,
		"Tove Lund <tove@zeta.example> <tove@alpha.example>\nTove Lund <tove@zeta.example> <tlund@(none).example>\n")
	all, err := read(t, dir, Options{MakeAccounts: true})
	require.NoError(t, err)
	require.Len(t, all.people, 2)
	for _, p := range all.people {
		if p.FullName == "Tove Lund" {
			require.Equal(t, []string{"tove@zeta.example", "tlund@(none).example", "tove@alpha.example"}, p.Emails)
			require.Equal(t, []string{"Tove Lund", "tlund"}, p.Names)
			require.Equal(t, syntheticID("tove@zeta.example"), *p.UserID)
		}
	}
}

func TestLog_KeepsAllNames(t *testing.T) {
	dir := importHistory(t, "hkruse <hedda@kruse.example>", "Hedda K <hedda@kruse.example>",
		"Hedda Kruse <hedda@work.example>", "Hedda Kruse-Bahl <hedda@kruse.example>")
	addMailmap(t, dir, "Hedda Kruse-Bahl <hedda@kruse.example> <hedda@work.example>\n")
	all, err := read(t, dir, Options{MakeAccounts: true})
	require.NoError(t, err)
	for _, p := range all.people {
		if p.Emails[0] == "hedda@kruse.example" {
			require.Equal(t, []string{"Hedda Kruse-Bahl", "Hedda Kruse", "Hedda K", "hkruse"}, p.Names)
			require.Equal(t, []string{"hedda@kruse.example", "hedda@work.example"}, p.Emails)
			return
		}
	}
	t.Fatal("no account of hedda@kruse.example")
}

// The working file has precedence over the committed one, as in git; links and directories are ignored.
func TestMailmap_WorkingFileTakesPrecedence(t *testing.T) {
	bareDir := importHistory(t, "a <a@x.example>")
	addMailmap(t, bareDir, "Committed <a@x.example>\n")
	dir := filepath.Join(t.TempDir(), "clone")
	gitIn(t, bareDir, "", "clone", "-q", bareDir, dir)
	name := func() string {
		r, err := Open(t.Context(), dir, Options{StateDir: t.TempDir()})
		require.NoError(t, err)
		head, err := r.head(t.Context())
		require.NoError(t, err)
		m, err := r.readMailmap(t.Context(), head)
		require.NoError(t, err)
		require.Empty(t, r.Warnings())
		return m.lookup(signature{name: "a", email: "A@x.example"}).name
	}
	require.Equal(t, "Committed", name())
	file := filepath.Join(dir, mailmapName)
	require.NoError(t, os.WriteFile(file, []byte("Working <a@x.example>\n"), 0o600))
	require.Equal(t, "Working", name())
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Symlink("/etc/passwd", file))
	require.Equal(t, "Committed", name())
}

// The record of an author replaces the older one, so it must be complete after a run that reads
// only new commits.
func TestLog_KeepsNamesAndAddressesOfOlderCommits(t *testing.T) {
	dir := importHistory(t, "Ann <ann@x.example>", "Bo <gate@x.example>", "Ann Lee <ann@work.example>",
		"Gate <gate@x.example>")
	addMailmap(
		t, dir,
		"Ann Lee <ann@x.example>\nAnn Lee <ann@x.example> <ann@work.example>\nBo <bo@x.example> Bo <gate@x.example>\n",
	)
	opts := Options{MakeAccounts: true, StateDir: t.TempDir()}
	first, err := read(t, dir, opts)
	require.NoError(t, err)
	require.NoError(t, first.repo.Done())
	gitIn(
		t, dir,
		"commit refs/heads/main\nauthor ann <ANN@x.example> 1900000000 +0000\ncommitter B <b@x> 1900000000 "+
			"+0000\ndata 1\nx\n"+
			"from refs/heads/main^0\n\ncommit refs/heads/main\nauthor Bo <gate@x.example> 1900000001 +0000\n"+
			"committer B <b@x> 1900000001 +0000\ndata 1\ny\n",
		"fast-import",
		"--quiet",
	)
	second, err := read(t, dir, opts)
	require.NoError(t, err)
	require.Len(t, second.commits, 2)
	require.Len(t, second.people, 2)
	for _, p := range second.people {
		switch p.FullName {
		case "Ann Lee":
			require.Equal(t, []string{"Ann Lee", "ann", "Ann"}, p.Names)
			require.Equal(t, []string{"ann@x.example", "ann@work.example"}, p.Emails)
		case "Bo":
			require.Equal(t, []string{"bo@x.example"}, p.Emails, "other author of the address has no new commit")
		default:
			t.Fatal(p.FullName)
		}
	}
}
