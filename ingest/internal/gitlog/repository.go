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

// Options configure how histories are read.
type Options struct {
	// StateDir is the directory of the repositories' states.
	StateDir string
	// Full reads the full history, including commits read before.
	Full bool
	// Generation identifies the contents of the topics. If it differs from that of the state, the
	// full history is read again.
	Generation string
	// Authors are accounts provided by the operator.
	Authors Authors
	// NoReplyHosts are additional code hosts whose no-reply addresses identify accounts, without
	// "users.noreply.".
	NoReplyHosts []string
	// MakeAccounts synthesizes an account for every author without one.
	MakeAccounts bool
	// Owner is the account that owns the repositories. By default it is the account of the name in
	// the URL of the remote "origin", if its ID is known.
	Owner Account

	idle time.Duration // idleTimeout if zero
}

// Repository is an open repository.
type Repository struct {
	path   string
	opts   Options
	git    gitDir
	files  string // working tree, or ""
	state  State
	reread bool  // generation changed: the full history is read
	next   State // state to be written by Done
	name   names
	// unknown has the authors without an account and their commit counts, up to maxUnknown authors.
	// unattributed is the number of all their commits, attributed that of commits of other authors.
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

// Open opens a repository by its directory, which may be bare or have a working tree.
func Open(ctx context.Context, dir string, opts Options) (*Repository, error) {
	absolute, err := filepath.Abs(dir)
	if err == nil {
		absolute, err = filepath.EvalSymlinks(absolute)
	}
	if err != nil {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	r := &Repository{path: dir, opts: opts, git: gitDir{absolute, idleTimeout}, unknown: map[string]*Unknown{}}
	if dot := filepath.Join(absolute, dotGit); exists(dot) {
		r.git.path, r.files = dot, absolute
	}
	if opts.idle > 0 {
		r.git.idle = opts.idle
	}
	if _, err := r.git.output(ctx, maxLine, "", "rev-parse", "--git-dir"); err != nil {
		return nil, fmt.Errorf("open repository %s: %w", dir, err)
	}
	if r.state, err = readState(opts.StateDir, absolute); err != nil {
		return nil, err
	}
	r.reread = len(r.state.Tips) > 0 && r.state.Generation != opts.Generation
	if opts.Full || r.reread {
		r.state.Tips = nil
	}
	r.next = State{Path: absolute, Generation: opts.Generation, Created: r.state.Created, Owner: r.state.Owner}
	r.name, err = r.names(ctx, absolute)
	return r, err
}

// Dir returns the repository's directory, as passed to Open.
func (r *Repository) Dir() string { return r.path }

// Reread reports whether the full history is read because the brokers do not have what was read before.
func (r *Repository) Reread() bool { return r.reread }

// Done records that everything read is stored, so that it is not read again.
func (r *Repository) Done() error { return r.next.write(r.opts.StateDir) }

// Unattributed returns the number of commits whose authors have no account, and these authors by
// descending number of commits.
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

// OwnerKnown reports whether the repository itself became a record. It is valid after the history was read.
func (r *Repository) OwnerKnown() bool { return r.next.Owner.ID > 0 }

// Warnings returns the limitations of the reading, one sentence each.
func (r *Repository) Warnings() []string { return r.warnings }

// Kept reports whether commits became records, or none had to be dropped.
func (r *Repository) Kept() bool { return r.attributed > 0 || r.unattributed == 0 }

func (r *Repository) countUnattributed(author author) {
	r.unattributed++
	key := short(address(author.email))
	u, ok := r.unknown[key]
	if !ok {
		if len(r.unknown) == maxUnknown {
			return
		}
		u = &Unknown{Email: key, Name: short(author.name)}
		r.unknown[key] = u
	}
	u.Commits++
}

// names are the owner and the name of a repository.
type names struct{ owner, name string }

func (n names) fullName() string {
	if n.owner == "" {
		return n.name
	}
	return n.owner + "/" + n.name
}

// names returns those in the URL of the remote "origin", or derives the name from the directory.
func (r *Repository) names(ctx context.Context, dir string) (names, error) {
	n := names{owner: r.opts.Owner.Username, name: strings.TrimSuffix(filepath.Base(dir), dotGit)}
	if n.name == "" { // the directory is named ".git"
		n.name = filepath.Base(filepath.Dir(dir))
	}
	out, err := r.git.output(ctx, maxLine, "", "config", "--get", "remote.origin.url")
	if status(err) == 1 { // no such remote
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
		// A local path.
		return n, nil
	}
	if owner, name := path.Split(url); owner != "" && name != "" {
		n.name = name
		if n.owner == "" {
			n.owner = path.Base(path.Clean(owner))
		}
	}
	return n, nil
}

// tips returns the objects that branches, tags and HEAD point to, sorted, without duplicates.
func (r *Repository) tips(ctx context.Context, head string) ([]string, error) {
	// Requesting the type makes git look the object up: a missing one is an error.
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
	if status(err) == 1 { // no commits yet, or an unborn branch
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read HEAD: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// readMailmap reads .mailmap: the working file, as git does, or that of the checked-out commit.
// Without one, or if its objects are missing in a partial clone, no name is mapped.
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
		r.warnings = append(r.warnings, mailmapName+" cannot be read, names and addresses are not mapped: "+
			err.Error())
	}
	return mailmap{}, ctx.Err()
}

const (
	dotGit      = ".git"
	mailmapName = ".mailmap"
	symlinkMode = "120000"
	maxLine     = 64 << 10 // bytes of a line printed by git
	maxRefs     = 64 << 20 // bytes of the list of references
)

// readMailmapFile reads .mailmap in a working tree, if it is a regular file of at most maxMailmap bytes.
func readMailmapFile(dir string) (string, bool) {
	if dir == "" {
		return "", false
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", false
	}
	defer func() { _ = root.Close() }() // opened for reading
	info, err := root.Lstat(mailmapName)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxMailmap {
		return "", false
	}
	text, err := root.ReadFile(mailmapName)
	return string(text), err == nil
}

// maxFiles and maxNames limit the files that are counted for the language, and the bytes of their names.
const (
	maxFiles = 200_000
	maxNames = 64 << 20
)

// language returns the language of most files, or "". A tree that cannot be read has none.
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
	byExtension, counts := languages(), map[string]int{}
	for i := 0; i < maxFiles && names.Scan(); i++ {
		if l := byExtension[strings.ToLower(path.Ext(names.Text()))]; l != "" {
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

// splitNUL is a bufio.SplitFunc for NUL-terminated strings.
func splitNUL(data []byte, _ bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i + 1, data[:i], nil
	}
	return 0, nil, nil
}

// languages returns programming languages by the extensions of their files.
func languages() map[string]string {
	return map[string]string{
		".go": "Go", ".py": "Python", ".js": "JavaScript", ".mjs": "JavaScript", ".cjs": "JavaScript",
		".jsx": "JavaScript", ".ts": "TypeScript", ".tsx": "TypeScript", ".java": "Java", ".kt": "Kotlin",
		".kts": "Kotlin", ".scala": "Scala", ".rs": "Rust", ".c": "C", ".cc": "C++", ".cpp": "C++", ".cxx": "C++",
		".hpp": "C++", ".hh": "C++", ".cs": "C#", ".rb": "Ruby", ".php": "PHP", ".swift": "Swift", ".sh": "Shell",
		".bash": "Shell", ".pl": "Perl", ".pm": "Perl", ".lua": "Lua", ".hs": "Haskell", ".erl": "Erlang",
		".ex": "Elixir", ".exs": "Elixir", ".clj": "Clojure", ".cljs": "Clojure", ".dart": "Dart", ".jl": "Julia",
		".r": "R", ".zig": "Zig", ".html": "HTML", ".htm": "HTML", ".css": "CSS", ".scss": "CSS", ".vue": "Vue",
		".ml": "OCaml", ".mli": "OCaml", ".tf": "HCL",
	}
}
