package gitlog

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options say how histories are read.
type Options struct {
	// StateDir is the folder of the repositories' states.
	StateDir string
	// Full reads everything, whatever was read before.
	Full bool
	// Generation names what the brokers have. What was read in another one is read
	// again.
	Generation string
	// Authors are accounts that the operator knows.
	Authors Authors
	// NoReplyHosts are code hosts beside those of the platform whose no-reply
	// addresses are read, without "users.noreply.".
	NoReplyHosts []string
	// MakeAccounts makes up an account for every author who has none.
	MakeAccounts bool
	// Owner is the account that the repositories belong to. Without it, it is the
	// one of the name in the address of the remote "origin", if its id is known.
	Owner Account

	idle time.Duration // idleTimeout if zero
}

// Repository is a repository that is read.
type Repository struct {
	path  string
	opts  Options
	git   gitDir
	files string // the folder of the working files, or ""
	state State
	again bool  // what was read in another generation is read again
	next  State // what the state will be
	name  names
	// unknown counts the commits of each author without an account, up to maxUnknown authors; unattributed those of
	// all. attributed are the commits of authors with one.
	unknown                  map[string]*Unknown
	unattributed, attributed int64
	warnings                 []string
}

// Unknown is an author without an account. Email is the proper address, by .mailmap.
type Unknown struct {
	Email, Name string
	Commits     int64
}

const maxUnknown = 100_000

// Open opens a repository by its folder, which may be bare, or have a worktree.
func Open(ctx context.Context, folder string, opts Options) (*Repository, error) {
	full, err := filepath.Abs(folder)
	if err == nil {
		full, err = filepath.EvalSymlinks(full)
	}
	if err != nil {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	r := &Repository{path: folder, opts: opts, git: gitDir{full, idleTimeout}, unknown: map[string]*Unknown{}}
	if dot := filepath.Join(full, dotGit); exists(dot) {
		r.git.path, r.files = dot, full
	}
	if opts.idle > 0 {
		r.git.idle = opts.idle
	}
	if _, err := r.git.output(ctx, maxLine, "", "rev-parse", "--git-dir"); err != nil {
		return nil, fmt.Errorf("open repository %s: %w", folder, err)
	}
	if r.state, err = readState(opts.StateDir, full); err != nil {
		return nil, err
	}
	r.again = len(r.state.Tips) > 0 && r.state.Generation != opts.Generation
	if opts.Full || r.again {
		r.state.Tips = nil
	}
	r.next = State{Path: full, Generation: opts.Generation, Created: r.state.Created, Owner: r.state.Owner}
	r.name, err = r.names(ctx, full)
	return r, err
}

// Folder is the repository's folder, as it was named.
func (r *Repository) Folder() string { return r.path }

// Again tells whether all is read because the brokers do not have what was read
// before.
func (r *Repository) Again() bool { return r.again }

// Done says that everything that was read is stored: it is not read again.
func (r *Repository) Done() error { return r.next.write(r.opts.StateDir) }

// Unattributed returns the number of commits whose authors have no account, and
// these authors, by number of commits.
func (r *Repository) Unattributed() (int64, []Unknown) {
	var all []Unknown
	for _, u := range r.unknown {
		all = append(all, *u)
	}
	slices.SortFunc(all, func(a, b Unknown) int {
		if a.Commits != b.Commits {
			return int(b.Commits - a.Commits)
		}
		return strings.Compare(a.Email, b.Email)
	})
	return r.unattributed, all
}

// OwnerKnown tells, once the history is read, whether the repository itself became
// a record.
func (r *Repository) OwnerKnown() bool { return r.next.Owner.ID > 0 }

// Warnings returns what a reading lacks, each time one sentence.
func (r *Repository) Warnings() []string { return r.warnings }

// Kept reports whether commits became records, or none had to be dropped.
func (r *Repository) Kept() bool { return r.attributed > 0 || r.unattributed == 0 }

func (r *Repository) passOver(who author) {
	r.unattributed++
	key := short(address(who.email))
	u, ok := r.unknown[key]
	if !ok {
		if len(r.unknown) == maxUnknown {
			return
		}
		u = &Unknown{Email: key, Name: short(who.name)}
		r.unknown[key] = u
	}
	u.Commits++
}

// names are what a repository is called.
type names struct{ owner, name string }

func (n names) full() string {
	if n.owner == "" {
		return n.name
	}
	return n.owner + "/" + n.name
}

// names returns those in the address of the remote "origin", or the folder's.
func (r *Repository) names(ctx context.Context, folder string) (names, error) {
	n := names{owner: r.opts.Owner.Username, name: strings.TrimSuffix(filepath.Base(folder), dotGit)}
	if n.name == "" { // the folder is called ".git"
		n.name = filepath.Base(filepath.Dir(folder))
	}
	out, err := r.git.output(ctx, maxLine, "", "config", "--get", "remote.origin.url")
	if status(err) == 1 { // there is none
		return n, nil
	}
	if err != nil {
		return n, fmt.Errorf("open repository %s: read the remote: %w", r.path, err)
	}
	url := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(string(out)), "/"), dotGit)
	if i := strings.Index(url, "://"); i >= 0 {
		_, url, _ = strings.Cut(url[i+3:], "/")
	} else if _, after, scp := strings.Cut(url, ":"); scp && !strings.HasPrefix(url, "/") {
		url = after
	} else {
		return n, nil // a folder of this machine
	}
	if owner, name := path.Split(url); owner != "" && name != "" {
		n.name = name
		if n.owner == "" {
			n.owner = path.Base(path.Clean(owner))
		}
	}
	return n, nil
}

// tips returns the objects that branches, tags and HEAD name, each once, in their order.
func (r *Repository) tips(ctx context.Context, head string) ([]string, error) {
	// The type makes git look for the object: one that is missing is an error.
	out, err := r.git.output(ctx, maxRefs, "", "for-each-ref", "--format=%(objectname) %(objecttype) %(refname)")
	if err != nil {
		return nil, fmt.Errorf("list references: %w", err)
	}
	var tips []string
	if head != "" {
		tips = append(tips, head)
	}
	for line := range strings.Lines(string(out)) {
		hash, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		kind, name, _ := strings.Cut(rest, " ")
		if strings.HasPrefix(name, "refs/notes/") || name == "refs/stash" || kind == "blob" || kind == "tree" {
			continue
		}
		tips = append(tips, hash)
	}
	slices.Sort(tips)
	return slices.Compact(tips), nil
}

// head returns the commit that is checked out, or "".
func (r *Repository) head(ctx context.Context) (string, error) {
	out, err := r.git.output(ctx, maxLine, "", "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if status(err) == 1 { // no commits yet, or a branch that is not there
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read HEAD: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// readMailmap returns .mailmap: the working file, as git itself reads it, or the one of the commit that is checked
// out. Without one, or if its objects are not in a partial clone, no name is mapped.
func (r *Repository) readMailmap(ctx context.Context, head string) (mailmap, error) {
	if text, ok := readMailmapFile(r.files); ok {
		return parseMailmap(text), nil
	}
	if head == "" {
		return mailmap{}, nil
	}
	entry, err := r.git.output(ctx, maxLine, "", "ls-tree", "--full-tree", head, "--", mailmapName)
	fields := strings.Fields(string(entry)) // mode, type, object, name
	if err == nil && len(fields) == 4 && fields[1] == "blob" && fields[0] != symlinkMode {
		var text []byte
		if text, err = r.git.output(ctx, maxMailmap, "", "cat-file", "blob", fields[2]); err == nil {
			return parseMailmap(string(text)), nil
		}
	}
	if err != nil && ctx.Err() == nil {
		r.warnings = append(r.warnings, "names and addresses are used as they stand in commits, because "+mailmapName+
			" cannot be read: "+err.Error())
	}
	return mailmap{}, ctx.Err()
}

const (
	dotGit      = ".git"
	mailmapName = ".mailmap"
	symlinkMode = "120000"
	maxLine     = 64 << 10 // bytes of a line that git prints
	maxRefs     = 64 << 20 // bytes of the list of references
)

// readMailmapFile reads the .mailmap in a folder of working files, if it is a file of at most maxMailmap.
func readMailmapFile(folder string) (string, bool) {
	if folder == "" {
		return "", false
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return "", false
	}
	defer func() { _ = root.Close() }() // it is only read from
	info, err := root.Lstat(mailmapName)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxMailmap {
		return "", false
	}
	text, err := root.ReadFile(mailmapName)
	return string(text), err == nil
}

// maxFiles and maxNames bound the files that are looked at for the language, and the bytes of their names.
const (
	maxFiles = 200_000
	maxNames = 64 << 20
)

// language returns the language that most files are written in, or "". A tree that cannot be read has none.
func (r *Repository) language(ctx context.Context, head string) string {
	if head == "" {
		return ""
	}
	s, err := r.git.start(ctx, "", []string{"ls-tree", "--full-tree", "-r", "-z", "--name-only", head})
	if err != nil {
		return ""
	}
	defer func() { _ = s.close() }()
	names := bufio.NewScanner(io.LimitReader(s, maxNames))
	names.Split(splitNUL)
	counts := map[string]int{}
	for i := 0; i < maxFiles && names.Scan(); i++ {
		if l := languageOf(names.Text()); l != "" {
			counts[l]++
		}
	}
	best := ""
	for l, n := range counts {
		if n > counts[best] || n == counts[best] && l < best {
			best = l
		}
	}
	return best
}

// splitNUL is a bufio.SplitFunc for texts that end with NUL.
func splitNUL(data []byte, _ bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	return 0, nil, nil
}

// languageOf tells a program's language by the extension of its file.
func languageOf(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".go":
		return "Go"
	case ".py":
		return "Python"
	case ".js", ".mjs", ".cjs", ".jsx":
		return "JavaScript"
	case ".ts", ".tsx":
		return "TypeScript"
	case ".java":
		return "Java"
	case ".kt", ".kts":
		return "Kotlin"
	case ".scala":
		return "Scala"
	case ".rs":
		return "Rust"
	case ".c":
		return "C"
	case ".cc", ".cpp", ".cxx", ".hpp", ".hh":
		return "C++"
	case ".cs":
		return "C#"
	case ".rb":
		return "Ruby"
	case ".php":
		return "PHP"
	case ".swift":
		return "Swift"
	case ".sh", ".bash":
		return "Shell"
	case ".pl", ".pm":
		return "Perl"
	case ".lua":
		return "Lua"
	case ".hs":
		return "Haskell"
	case ".erl":
		return "Erlang"
	case ".ex", ".exs":
		return "Elixir"
	case ".clj", ".cljs":
		return "Clojure"
	case ".dart":
		return "Dart"
	case ".jl":
		return "Julia"
	case ".r":
		return "R"
	case ".zig":
		return "Zig"
	case ".html", ".htm":
		return "HTML"
	case ".css", ".scss":
		return "CSS"
	case ".vue":
		return "Vue"
	case ".ml", ".mli":
		return "OCaml"
	case ".tf":
		return "HCL"
	}
	return ""
}
