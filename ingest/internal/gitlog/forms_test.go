package gitlog

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
)

// workingCopy creates a repository with working files and two commits of one author.
func workingCopy(t testing.TB, init ...string) string {
	t.Helper()
	dir := t.TempDir()
	gitIn(t, dir, "", append([]string{"init", "-q", "-b", "main"}, init...)...)
	for i := range 2 {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "a"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "f.go"), fmt.Append(nil, i), 0o600))
		gitIn(t, dir, "", "add", ".")
		gitIn(t, dir, "", "-c", "user.name=Ravn Holt", "-c", "user.email=ravn@form.example", "commit", "-q", "-m",
			"change")
	}
	return dir
}

func requireRead(t testing.TB, dir, language string) readings {
	t.Helper()
	all, err := read(t, dir, Options{MakeAccounts: true})
	require.NoError(t, err)
	require.Len(t, all.commits, 2)
	require.Len(t, all.people, 1)
	require.Equal(t, []string{"ravn@form.example"}, all.people[0].Emails)
	require.Equal(t, language, all.commits[0].Repo.Language)
	return all
}

func TestLog_ReadsEveryFormOfRepository(t *testing.T) {
	t.Run("SHA-256", func(t *testing.T) {
		dir := workingCopy(t, "--object-format=sha256")
		all := requireRead(t, dir, "Go")
		require.Len(t, all.commits[0].SHA, 64)
		// Commits are not read again.
		state := t.TempDir()
		all, err := read(t, dir, Options{MakeAccounts: true, StateDir: state})
		require.NoError(t, err)
		require.NoError(t, all.repo.Done())
		gitIn(t, dir, "", "-c", "user.name=R", "-c", "user.email=ravn@form.example", "commit", "-q", "--allow-empty",
			"-m", "third")
		all, err = read(t, dir, Options{MakeAccounts: true, StateDir: state})
		require.NoError(t, err)
		require.Len(t, all.commits, 1)
		require.Equal(t, "third", all.commits[0].Message)
	})
	t.Run("shared clone", func(t *testing.T) {
		clone := filepath.Join(t.TempDir(), "clone")
		gitIn(t, "/", "", "clone", "-q", "--shared", workingCopy(t), clone)
		requireRead(t, clone, "Go")
	})
	t.Run("sparse checkout", func(t *testing.T) {
		dir := workingCopy(t)
		gitIn(t, dir, "", "sparse-checkout", "set", "b")
		require.Equal(t, "true\n", gitIn(t, dir, "", "config", "extensions.worktreeConfig"))
		requireRead(t, dir, "Go")
	})
	t.Run("detached worktree", func(t *testing.T) {
		tree := filepath.Join(t.TempDir(), "tree")
		gitIn(t, workingCopy(t), "", "worktree", "add", "-q", "--detach", tree)
		requireRead(t, tree, "Go")
	})
	t.Run("directory .git", func(t *testing.T) { requireRead(t, filepath.Join(workingCopy(t), dotGit), "Go") })
	t.Run("bare, packed references", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "bare.git")
		gitIn(t, "/", "", "clone", "-q", "--bare", workingCopy(t), dir)
		gitIn(t, dir, "", "pack-refs", "--all")
		gitIn(t, dir, "", "-c", "user.name=T", "-c", "user.email=t@x.example", "tag", "-a", "-m", "annotated", "v1")
		requireRead(t, dir, "Go")
	})
	t.Run("shallow clone", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "shallow")
		gitIn(t, "/", "", "clone", "-q", "--depth=1", "file://"+workingCopy(t), dir)
		all, err := read(t, dir, Options{MakeAccounts: true})
		require.NoError(t, err)
		require.Len(t, all.commits, 1)
	})
	for filter, language := range map[string]string{"tree:0": "", "blob:none": "Go"} {
		t.Run("partial clone "+filter, func(t *testing.T) {
			origin := workingCopy(t)
			require.NoError(t,
				os.WriteFile(filepath.Join(origin, mailmapName), []byte("R <ravn@form.example>\n"), 0o600))
			gitIn(t, origin, "", "add", ".")
			gitIn(t, origin, "", "-c", "user.name=x", "-c", "user.email=ravn@form.example", "commit", "-q", "--amend",
				"-m", "mailmap")
			gitIn(t, origin, "", "config", "uploadpack.allowFilter", "true")
			dir := filepath.Join(t.TempDir(), "clone.git")
			gitIn(t, "/", "", "clone", "-q", "--bare", "--filter="+filter, "file://"+origin, dir)
			all := requireRead(t, dir, language)
			require.Len(t, all.repo.Warnings(), 1)
			require.Contains(t, all.repo.Warnings()[0], mailmapName)
			require.Contains(t, gitIn(t, dir, "", "count-objects", "-v"), "\npacks: 1\n", "nothing was fetched")
		})
	}
	t.Run("unknown git extension", func(t *testing.T) {
		dir := workingCopy(t)
		gitIn(t, dir, "", "config", "core.repositoryFormatVersion", "1")
		gitIn(t, dir, "", "config", "extensions.fromTheFuture", "true")
		_, err := read(t, dir, Options{})
		require.ErrorContains(t, err, "too old")
	})
	t.Run("without git", func(t *testing.T) {
		dir := workingCopy(t)
		t.Setenv("PATH", t.TempDir())
		_, err := read(t, dir, Options{})
		require.ErrorContains(t, err, "git is not installed")
	})
}

func encoded(t testing.TB, e encoding.Encoding, s string) string {
	t.Helper()
	out, err := e.NewEncoder().String(s)
	require.NoError(t, err)
	return out
}

func TestParseCommit_DecodesEncodingHeader(t *testing.T) {
	for label, c := range map[string]struct {
		encoding encoding.Encoding
		text     string
	}{
		"ISO-8859-1": {charmap.ISO8859_1, "Renée Dumoûlin"}, "iso8859-1": {charmap.ISO8859_1, "é\u0080"},
		"latin1":     {charmap.ISO8859_1, "ß"},
		"ISO8859-15": {charmap.ISO8859_15, "Œuvre €"}, "ISO-8859-2": {charmap.ISO8859_2, "Łódź"},
		"latin-2":      {charmap.ISO8859_2, "Łódź"},
		"windows-1251": {charmap.Windows1251, "Зоя Лисина"}, "CP1251": {charmap.Windows1251, "Зоя"},
		"cp1252": {charmap.Windows1252, "“é”"},
		"KOI8-R": {charmap.KOI8R, "правка"}, "koi8r": {charmap.KOI8R, "правка"},
		"CP866":  {charmap.CodePage866, "правка"},
		"IBM850": {charmap.CodePage850, "é"}, "MacRoman": {charmap.Macintosh, "é"},
		"Shift_JIS": {japanese.ShiftJIS, "山本葵"}, "SJIS": {japanese.ShiftJIS, "山本葵"},
		"CP932":  {japanese.ShiftJIS, "葵"},
		"EUC-JP": {japanese.EUCJP, "誤りを直す"}, "eucJP": {japanese.EUCJP, "誤り"},
		"ISO-2022-JP": {japanese.ISO2022JP, "山本葵"},
		"UTF-8":       {encoding.Nop, "Ünï"}, "utf8": {encoding.Nop, "山"}, "": {encoding.Nop, "山"},
	} {
		raw := encoded(t, c.encoding, c.text)
		text := "tree x\nauthor " + raw + " <a@x.example> 1700000000 +0000\ncommitter " + raw + " <c@x.example> " +
			"1700000001 +0200\n"
		if label != "" {
			text += "encoding " + label + "\n"
		}
		got := parseCommit([]byte(text + "gpgsig -----BEGIN\n author no\n\n" + raw + "\n\nmore\n"))
		require.Equal(t, c.text, got.author.name, label)
		require.Equal(t, c.text+"\n\nmore", got.message, label)
		require.Equal(t, int64(1700000001), got.committer.when.Unix(), label)
	}
	bad := parseCommit([]byte("author A\xff\xfe <a\x00\xff@x> 17 +0000\nencoding no-such-charset\n\nok \xff"))
	require.Equal(t, signature{"A\ufffd", "a\ufffd\ufffd@x", bad.author.when}, bad.author)
	require.Equal(t, "ok \ufffd", bad.message)
	require.Equal(t, "山\ufffd",
		parseCommit([]byte("encoding EUC-JP\n\n"+encoded(t, japanese.EUCJP, "山")+"\xff")).message)
}

// Compared with git, for charsets that its iconv supports.
func TestLog_DecodesAsGitDoes(t *testing.T) {
	dir := bare(t)
	parent := ""
	for label, e := range map[string]encoding.Encoding{
		"ISO-8859-1": charmap.ISO8859_1, "CP1251": charmap.Windows1251, "SJIS": japanese.ShiftJIS,
		"eucJP": japanese.EUCJP, "KOI8-R": charmap.KOI8R,
	} {
		name := map[bool]string{true: "é", false: "Зоя"}[e == charmap.ISO8859_1]
		text := commitText("")
		if parent != "" {
			text = commitText("", parent)
		}
		text = strings.Replace(text, "author A", "author "+encoded(t, e, name), 1)
		text = strings.Replace(text, "\n\n", "\nencoding "+label+"\n\n"+encoded(t, e, "message "+name), 1)
		parent = strings.TrimSpace(gitIn(t, dir, text, "hash-object", "-t", "commit", "-w", "--stdin"))
	}
	addRef(t, dir, "main", parent)
	sound, _, err := history(t, dir)
	require.NoError(t, err)
	require.Len(t, sound, 5)
	var got strings.Builder
	for _, c := range sound {
		fmt.Fprintf(&got, "%s|%s|%s\n", c.SHA, c.AuthorName, c.Message)
	}
	require.Equal(t,
		gitIn(t, dir, "", "-c", "i18n.logOutputEncoding=UTF-8", "log", "--topo-order", "--format=%H|%an|%s", "main"),
		got.String())
}

func TestParseSignature_ReadsAsGitDoes(t *testing.T) {
	for line, want := range map[string]string{
		"A B <a@x> 17 +0100": "A B|a@x|17", "<a@x> 17 +0100": "|a@x|17", "A <> 17 +0": "A||17", "A <a@x>": "A|a@x|0",
		"A <a@x> soon": "A|a@x|0", "A <a@x>> 17 +0": "A|a@x|17", "A <a <b>> 5 +0": "A|a <b|5", "": "||0",
		"A a@x 17": "||0", "A <a@x 17 +0": "||0",
		"A <a@x> 99999999999999999999 +0": "A|a@x|0", "A\t <a@x> 17": "A|a@x|17",
	} {
		s := parseSignature([]byte(line), nil)
		require.Equal(t, want, fmt.Sprintf("%s|%s|%d", s.name, s.email, s.when.Unix()), line)
	}
}

func TestFind_WalksDirectories(t *testing.T) {
	root := t.TempDir()
	in := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	for _, dir := range []string{"one", "group/two", "one/vendor/clone"} {
		gitIn(t, root, "", "init", "-q", in(dir))
	}
	for _, dir := range []string{"three.git", "one/testdata/fixture.git"} {
		gitIn(t, root, "", "init", "-q", "--bare", in(dir))
	}
	require.NoError(t, os.MkdirAll(in("notes", "HEAD"), 0o700))
	require.NoError(t, os.Symlink(root, in("notes", "loop")))
	require.NoError(t, os.MkdirAll(in("one", "module"), 0o700))
	require.NoError(t, os.WriteFile(in("one", "module", dotGit), []byte("gitdir: ../.git/modules/module\n"), 0o600))
	found, unreadable, err := Find(root)
	require.NoError(t, err)
	require.Empty(t, unreadable)
	require.ElementsMatch(t, []string{in("one"), in("group", "two"), in("three.git"), in("one", "vendor", "clone")},
		found)
	found, _, err = Find(in("one"))
	require.NoError(t, err)
	require.Equal(t, []string{in("one")}, found)
	_, _, err = Find(in("notes"))
	require.ErrorContains(t, err, "no git repository in "+in("notes")+" or below")
	_, _, err = Find(in("absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestLog_FindsAccountsOfNoReplyAddresses(t *testing.T) {
	dir := importHistory(t, "Mila Kern <7654321+milakern@users.noreply.codehost.example>",
		"Mila Kern <milakern@users.noreply.codehost.example>", "Jori Salo <jorisalo@users.noreply.codehost.example>",
		"pinbot[bot] <5550001+pinbot[bot]@users.noreply.codehost.example>", "Web <noreply@codehost.example>")
	all, err := read(t, dir, Options{MakeAccounts: true})
	require.NoError(t, err)
	commits := map[string]int{}
	for _, c := range all.commits {
		commits[c.AuthorLogin]++
	}
	require.Equal(t, 2, commits["milakern"])
	for _, p := range all.people {
		require.Empty(t, p.Emails)
		switch p.CodehostUsername {
		case "milakern":
			require.Equal(t, int64(7654321), *p.UserID)
		case "pinbot[bot]":
			require.Equal(t, int64(5550001), *p.UserID)
			require.Equal(t, "Bot", p.Type)
		case "jorisalo":
			require.Greater(t, *p.UserID, int64(1)<<52)
		default:
			require.True(t, strings.HasPrefix(p.CodehostUsername, "git-"))
		}
	}
}

func TestAccounts_ResolveInDocumentedOrder(t *testing.T) {
	m := parseMailmap(`# comment
Jane Doe <jane@corp.example> <jane@home.example>
Jane Doe <jane@corp.example> J <12+jane@users.noreply.codehost.example>
Proper <only@name.example>
<new@x.example> <old@x.example>
<far@x.example> <new@x.example>
Gate One <one@x.example> One <gate@x.example>
Gate Two <two@x.example> Two <gate@x.example>
Root One <rooted@x.example> One <root@x.example>
garbage
`)
	authors := Authors{
		"boss@corp.example": {ID: 1, Username: "Boss"}, "new@x.example": {ID: 2, Username: "x"},
		"gate@x.example": {ID: 3, Username: "gate"},
		"root@x.example": {ID: 4, Username: "root"},
	}
	learned := 0
	a := newAccounts(Options{Authors: authors, NoReplyHosts: []string{"git.corp.example"}}, m,
		func() error { learned++; return nil })
	of := func(a *accounts, name, email string) (Account, bool) {
		got, ok, err := a.resolve(m.lookup(signature{name: name, email: email}))
		require.NoError(t, err)
		return got, ok
	}
	of(a, "K", "34+kim@users.noreply.codehost.example")
	for author, want := range map[string]Account{
		"B|Boss@Corp.example":                            {1, "Boss"},
		"K|34+kim@users.noreply.codehost.example":        {34, "kim"},
		"J|jane@home.example":                            {12, "jane"},
		"J|JANE@corp.example":                            {12, "jane"},
		"J|Jane@users.noreply.codehost.example":          {12, "jane"},
		"C|56+CamelCase@Users.NoReply.Codehost.example":  {56, "CamelCase"},
		"O|old@x.example":                                {2, "x"},
		"B|boss@users.noreply.git.corp.example":          {1, "Boss"},
		"M|77+maintainer@users.noreply.git.corp.example": {77, "maintainer"},
		"K|kim@users.noreply.codehost.example":           {34, "kim"},
		"G|gate@x.example":                               {3, "gate"},
		"One|gate@x.example":                             {},
		"one|root@x.example":                             {},
		"root|root@x.example":                            {4, "root"},
		"S|stranger@users.noreply.codehost.example":      {},
		"S|stranger@mail.example":                        {},
		"S|":                                             {},
	} {
		name, email, _ := strings.Cut(author, "|")
		got, ok := of(a, name, email)
		require.Equal(t, want.ID != 0, ok, author)
		require.Equal(t, want, got, author)
	}
	require.Equal(t, 1, learned)

	all := newAccounts(Options{MakeAccounts: true}, m, nil)
	one, ok := of(all, "S", "Stranger@mail.example")
	require.True(t, ok)
	require.GreaterOrEqual(t, one.ID, int64(1)<<52)
	require.Less(t, one.ID, int64(1)<<53)
	require.Regexp(t, `^git-[0-9a-f]{12}$`, one.Username)
	second, _ := of(all, "S", "stranger@mail.example ")
	require.Equal(t, one, second)
	left, _ := of(all, "O", "old@x.example")
	require.Equal(t, syntheticID("new@x.example"), left.ID, "mappings are not chained, as in git")
	gate, _ := of(all, "Two", "gate@x.example")
	require.Equal(t, syntheticID("two@x.example"), gate.ID)
	named, _ := of(all, "S", "stranger@users.noreply.codehost.example")
	require.Equal(t, "stranger", named.Username)
	_, ok = of(all, "S", "")
	require.False(t, ok)

	failing := newAccounts(Options{}, m, func() error { return io.ErrUnexpectedEOF })
	_, _, err := failing.resolve(
		author{email: "x@users.noreply.codehost.example", commitEmail: "x@users.noreply.codehost.example"},
	)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
