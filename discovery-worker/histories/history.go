package histories

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Limits of what is read. Histories are input of unknown quality.
const (
	maxCommits   = 2_000_000 // of all repositories
	maxCommit    = 64 << 10  // bytes of one line of the log
	maxDepth     = 3         // directories below the given one
	maxLanguages = 3
)

// commit is a line of a history.
type commit struct {
	repo            *repository
	sha             string
	name, address   string // as in the commit
	proper, mailbox string // after .mailmap
	at              time.Time
}

// repository is a history, with the languages of most files.
type repository struct {
	name      string
	languages []string
}

// findRepositories returns the git directories in a directory, in the order of their paths.
func findRepositories(dir string) ([]string, error) {
	root := filepath.Clean(dir)
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() {
			return nil
		}
		for _, candidate := range []string{path, filepath.Join(path, ".git")} {
			if isGitDirectory(candidate) {
				out = append(out, candidate)
				return filepath.SkipDir
			}
		}
		if rel, err := filepath.Rel(root, path); err == nil && rel != "." &&
			strings.Count(rel, string(filepath.Separator)) >= maxDepth-1 {
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find repositories: %w", err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("find repositories: no git repository in %s", dir)
	}
	return out, nil
}

func isGitDirectory(path string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Stat(filepath.Join(path, name)); err != nil {
			return false
		}
	}
	return true
}

// readHistory passes the commits of all branches to use, as git shows them.
func readHistory(ctx context.Context, dir string, use func(commit) error) error {
	repo := &repository{name: strings.TrimSuffix(filepath.Base(strings.TrimSuffix(dir, "/.git")), ".git")}
	var err error
	if repo.languages, err = languages(ctx, dir); err != nil {
		return fmt.Errorf("read %s: %w", repo.name, err)
	}
	err = git(ctx, dir, func(out io.Reader) error {
		lines := bufio.NewScanner(out)
		lines.Buffer(make([]byte, 0, 4096), maxCommit)
		for lines.Scan() {
			f := strings.Split(strings.ToValidUTF8(lines.Text(), ""), "\x00")
			if len(f) != 6 {
				continue // a name or address with a NUL
			}
			at, err := time.Parse(time.RFC3339, f[5])
			if err != nil {
				continue
			}
			if err := use(commit{repo, f[0], strings.TrimSpace(f[1]), strings.ToLower(strings.TrimSpace(f[2])),
				strings.TrimSpace(f[3]), strings.ToLower(strings.TrimSpace(f[4])), at.UTC()}); err != nil {
				return err
			}
		}
		return lines.Err()
	}, "log", "--all", "--format=%H%x00%an%x00%ae%x00%aN%x00%aE%x00%aI")
	if err != nil {
		return fmt.Errorf("read %s: %w", repo.name, err)
	}
	return nil
}

// languages returns the programming languages of most files of the newest commit.
func languages(ctx context.Context, dir string) ([]string, error) {
	counts := make(map[string]int)
	err := git(ctx, dir, func(out io.Reader) error {
		names := bufio.NewScanner(out)
		names.Buffer(make([]byte, 0, 4096), maxCommit)
		for names.Scan() {
			if l := language(filepath.Ext(names.Text())); l != "" {
				counts[l]++
			}
		}
		return names.Err()
	}, "ls-tree", "-r", "--name-only", "HEAD")
	if err != nil {
		return nil, err
	}
	list := make([]string, 0, len(counts))
	for l := range counts {
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	return list[:min(len(list), maxLanguages)], nil
}

func language(extension string) string {
	switch extension {
	case ".go":
		return "Go"
	case ".py":
		return "Python"
	case ".js", ".mjs", ".jsx":
		return "JavaScript"
	case ".ts", ".tsx":
		return "TypeScript"
	case ".java":
		return "Java"
	case ".rb":
		return "Ruby"
	case ".rs":
		return "Rust"
	case ".php":
		return "PHP"
	case ".c", ".h":
		return "C"
	case ".cc", ".cpp", ".hpp":
		return "C++"
	case ".cs":
		return "C#"
	case ".sh":
		return "Shell"
	case ".lua":
		return "Lua"
	case ".swift":
		return "Swift"
	case ".kt":
		return "Kotlin"
	}
	return ""
}

// git runs a command of git in a repository. Hooks and configuration of the repository are not
// used: the histories may be of strangers. The .mailmap is that of HEAD, not that of the working directory.
func git(ctx context.Context, dir string, read func(io.Reader) error, args ...string) error {
	//nolint:gosec // the arguments are constant, the directory is the operator's
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "--git-dir", ".", "-c", "core.fsmonitor=false",
		"-c", "log.showSignature=false", "-c", "mailmap.blob=HEAD:.mailmap"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "LC_ALL=C",
		"GIT_TERMINAL_PROMPT=0")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run git: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run git: %w", err)
	}
	readErr := read(out)
	if readErr != nil {
		_ = cmd.Process.Kill() // the rest is not wanted
	}
	if err := cmd.Wait(); readErr == nil && err != nil {
		first, _, _ := strings.Cut(complaints.String(), "\n")
		return errors.Join(ctx.Err(), fmt.Errorf("git %s: %w: %s", args[0], err, first))
	}
	return readErr
}
