package gitlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
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
}

// Repository is a repository that is read.
type Repository struct {
	path  string
	opts  Options
	git   *git.Repository
	files billy.Filesystem // the folder .git
	state State
	again bool  // what was read in another generation is read again
	next  State // what the state will be
	name  names
	// unknown counts the commits of each author without an account, up to
	// maxUnknown authors; unattributed those of all.
	unknown      map[string]*Unknown
	unattributed int64
}

// Unknown is an author without an account.
type Unknown struct {
	Email, Name string
	Commits     int64
}

const maxUnknown = 100_000

// Open opens a repository by its folder, which may be bare, or have a worktree.
func Open(folder string, opts Options) (*Repository, error) {
	full, err := filepath.Abs(folder)
	if err == nil {
		full, err = filepath.EvalSymlinks(full)
	}
	if err != nil {
		return nil, fmt.Errorf("open repository: %w", err)
	}
	files, err := openFiles(full)
	if err != nil {
		return nil, fmt.Errorf("open repository %s: %w", folder, err)
	}
	g, err := git.Open(filesystem.NewStorage(files, cache.NewObjectLRUDefault()), nil)
	if err != nil {
		return nil, fmt.Errorf("open repository %s: %w", folder, err)
	}
	r := &Repository{path: folder, opts: opts, git: g, files: files, unknown: map[string]*Unknown{}}
	if r.state, err = readState(opts.StateDir, full); err != nil {
		return nil, err
	}
	r.again = len(r.state.Tips) > 0 && r.state.Generation != opts.Generation
	if opts.Full || r.again {
		r.state.Tips = nil
	}
	r.next = State{Path: full, Generation: opts.Generation, Created: r.state.Created, Owner: r.state.Owner}
	r.name = r.names(full)
	return r, nil
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

func (r *Repository) passOver(c *object.Commit) {
	r.unattributed++
	key := short(address(c.Author.Email))
	u, ok := r.unknown[key]
	if !ok {
		if len(r.unknown) == maxUnknown {
			return
		}
		u = &Unknown{Email: key, Name: short(clean(c.Author.Name))}
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

// names are those in the address of the remote "origin", or the folder's.
func (r *Repository) names(folder string) names {
	n := names{owner: r.opts.Owner.Username, name: strings.TrimSuffix(filepath.Base(folder), ".git")}
	if n.name == "" { // the folder is called ".git"
		n.name = filepath.Base(filepath.Dir(folder))
	}
	remote, err := r.git.Remote("origin")
	if err != nil || len(remote.Config().URLs) == 0 {
		return n
	}
	url := strings.TrimSuffix(strings.TrimSuffix(remote.Config().URLs[0], "/"), ".git")
	if i := strings.Index(url, "://"); i >= 0 {
		_, url, _ = strings.Cut(url[i+3:], "/")
	} else if _, after, scp := strings.Cut(url, ":"); scp && !strings.HasPrefix(url, "/") {
		url = after
	} else {
		return n // a folder of this machine
	}
	if owner, name := path.Split(url); owner != "" && name != "" {
		n.name = name
		if n.owner == "" {
			n.owner = path.Base(path.Clean(owner))
		}
	}
	return n
}

// tips returns the commits that branches and tags stand at, each once.
func (r *Repository) tips(ctx context.Context, o *objects) ([]plumbing.Hash, error) {
	refs, err := r.git.References()
	if err != nil {
		return nil, fmt.Errorf("list references: %w", err)
	}
	defer refs.Close()
	var tips []plumbing.Hash
	seen := map[plumbing.Hash]bool{}
	add := func(ref *plumbing.Reference) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := ref.Name().String()
		if ref.Type() != plumbing.HashReference || strings.HasPrefix(name, "refs/notes/") || name == "refs/stash" {
			return nil
		}
		h, err := commitOf(o, ref.Hash())
		if err != nil || h.IsZero() || seen[h] {
			return err
		}
		seen[h] = true
		tips = append(tips, h)
		return nil
	}
	for {
		ref, err := refs.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = add(ref)
		}
		if err != nil {
			return nil, fmt.Errorf("list references: %w", err)
		}
	}
	slices.SortFunc(tips, func(a, b plumbing.Hash) int { return strings.Compare(a.String(), b.String()) })
	return tips, nil
}

// commitOf peels tags; it is zero for what is no commit, and for a tag that is too
// large to be one.
func commitOf(o *objects, h plumbing.Hash) (plumbing.Hash, error) {
	for range 10 {
		kind, err := o.kind(h)
		if err != nil {
			return plumbing.ZeroHash, fmt.Errorf("read %s: %w", h, err)
		}
		switch kind {
		case plumbing.CommitObject:
			return h, nil
		case plumbing.TagObject:
		default:
			return plumbing.ZeroHash, nil
		}
		tag, err := object.GetTag(o, h)
		if errors.Is(err, errLarge) {
			return plumbing.ZeroHash, nil
		}
		if err != nil {
			return plumbing.ZeroHash, fmt.Errorf("read tag %s: %w", h, err)
		}
		h = tag.Target
	}
	return plumbing.ZeroHash, nil
}

// head returns the commit that is checked out, or nil.
func (r *Repository) head(o *objects) *object.Commit {
	ref, err := r.git.Head()
	if err != nil {
		return nil // no commits yet, or a branch that is not there
	}
	c, err := object.GetCommit(o, ref.Hash())
	if err != nil {
		return nil
	}
	return c
}

// readMailmap reads the .mailmap of the commit that is checked out. One that is too
// large is none.
func readMailmap(head *object.Commit) (mailmap, error) {
	if head == nil {
		return parseMailmap(nil), nil
	}
	f, err := head.File(".mailmap")
	if errors.Is(err, object.ErrFileNotFound) || errors.Is(err, errLarge) {
		return parseMailmap(nil), nil
	}
	if err != nil {
		return mailmap{}, fmt.Errorf("read .mailmap: %w", err)
	}
	in, err := f.Reader()
	if err != nil {
		return mailmap{}, fmt.Errorf("read .mailmap: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(in, maxMailmap))
	if err := errors.Join(err, in.Close()); err != nil {
		return mailmap{}, fmt.Errorf("read .mailmap: %w", err)
	}
	return parseMailmap(text), nil
}

// maxFiles bounds how many files are looked at for the language.
const maxFiles = 200_000

// language is the one that most files are written in.
func language(ctx context.Context, head *object.Commit) string {
	if head == nil {
		return ""
	}
	tree, err := head.Tree()
	if err != nil {
		return "" // a partial clone: not worth failing for
	}
	files := object.NewTreeWalker(tree, true, nil)
	defer files.Close()
	counts := map[string]int{}
	for range maxFiles {
		name, entry, err := files.Next()
		if err != nil || ctx.Err() != nil {
			break
		}
		if l := languageOf(name); l != "" && entry.Mode.IsFile() {
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
