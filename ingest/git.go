package ingest

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"muster/ingest/internal/convert"
	"muster/ingest/internal/gitlog"
	"muster/ingest/internal/source"
)

// gitDir is the subdirectory of Config.StateDir for the read positions of repositories.
const gitDir = "git"

// GitConfig maps the authors of commits to accounts.
type GitConfig struct {
	// Authors is a CSV file with the columns email, user_id, username: accounts known to the
	// operator. It is optional.
	Authors string
	// NoReplyHosts are additional code hosts whose no-reply addresses identify accounts:
	// "git.example" for "1+jane@users.noreply.git.example".
	NoReplyHosts []string
	// MakeAccounts synthesizes an account for each author without one.
	MakeAccounts bool
	// OwnerID and OwnerName are the account that owns the repositories. If OwnerID is 0, the owner
	// is derived from the remote "origin".
	OwnerID   int64
	OwnerName string
	// FullHistory reads the full history, including commits read before.
	FullHistory bool
	// UnknownAuthors is a file to create with the authors without an account, in the format of Authors,
	// for the operator to complete. It is optional. An existing file is an error, since it may have
	// been completed; a pipe or a device is written to.
	UnknownAuthors string
}

// Git publishes the new history of local git repositories: a codehost-commit for each commit whose
// author's account is known, a codehost-person for each of these authors, and a codehost-repo for
// each repository whose owner is known. Commits of other authors count as dropped [SourceObject]
// objects. A directory that is not a repository is searched recursively for repositories.
//
// With Config.StateDir the read position of a repository is recorded when all of it is stored;
// after an interrupted run the next one starts where the previous one started. No position is
// recorded if all commits of a repository were dropped. With Config.Republish the full history is read.
// Summary and error are those of [Files]; a run that dropped all commits returns [ExitRejected].
func Git(ctx context.Context, cfg Config, deps Deps, git GitConfig, dirs []string) (Summary, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Summary{}, newExitError("ingest git", err)
	}
	deps = deps.withDefaults()
	meters, err := newMetrics(deps.Registerer)
	if err != nil {
		return Summary{}, newExitError("ingest git", err)
	}
	options, err := git.options(cfg)
	if err != nil {
		return Summary{}, newExitError("ingest git", err)
	}
	if !cfg.DryRun {
		if err := ensureTopics(ctx, cfg, deps.Logger); err != nil {
			return Summary{}, newExitError("ingest git", err)
		}
		if err := deps.Suppressed.WaitLoaded(ctx); err != nil {
			return Summary{}, newExitError("ingest git", err)
		}
	}
	st, err := openGitState(ctx, cfg, deps)
	if err != nil {
		return Summary{}, newExitError("ingest git", err)
	}
	if cfg.revision, err = st.revision(ctx, cfg, deps); err != nil {
		return Summary{}, newExitError("ingest git", errors.Join(err, st.close()))
	}
	options.Generation = st.generation
	repositories, err := openRepositories(ctx, deps, dirs, options)
	if err != nil {
		return Summary{}, newExitError("ingest git", errors.Join(err, st.close()))
	}
	r := newRun(ctx, cfg, deps, meters, nil, st.store())
	for _, repo := range repositories {
		r.add(repo.dir, convert.SourceObject, -1, func(ctx context.Context, _ source.Position) (source.Source, error) {
			if repo.err != nil {
				return nil, repo.err
			}
			return repo.Log(ctx)
		})
	}
	s, outcome := r.finish()
	errs := []error{st.finish(ctx, deps, s, outcome)}
	for i, repo := range repositories {
		if s.Files[i].Complete && repo.Kept() && !cfg.DryRun && cfg.StateDir != "" {
			errs = append(errs, repo.Done())
		}
	}
	errs = append(errs, git.report(deps, repositories, &s))
	if total := s.Total(); outcome == nil && s.Unattributed.Commits > 0 && total.accounted() == total.Dropped {
		outcome = &ExitError{
			Code: ExitRejected,
			Err:  fmt.Errorf("ingest git: nothing was published: %s", s.Unattributed),
		}
	}
	return s, joinError("ingest git", outcome, errors.Join(errs...))
}

func (g GitConfig) options(cfg Config) (gitlog.Options, error) {
	o := gitlog.Options{
		Full: g.FullHistory || cfg.Republish || cfg.Remap, NoReplyHosts: g.NoReplyHosts, MakeAccounts: g.MakeAccounts,
		Owner: gitlog.Account{ID: g.OwnerID, Username: g.OwnerName},
	}
	if (g.OwnerID != 0) != (g.OwnerName != "") || g.OwnerID < 0 {
		return o, errors.New("an owner requires a positive ID and a name")
	}
	if _, err := g.unknownMode(); err != nil { // report it before reading anything
		return o, err
	}
	if cfg.StateDir != "" {
		o.StateDir = filepath.Join(cfg.StateDir, gitDir)
	}
	if g.Authors == "" {
		return o, nil
	}
	var err error
	o.Authors, err = gitlog.ReadAuthors(g.Authors)
	return o, err
}

// unknownMode returns the flags to open UnknownAuthors with: exclusive creation, unless it is a pipe or a device.
func (g GitConfig) unknownMode() (int, error) {
	if _, err := os.Lstat(g.UnknownAuthors); err != nil {
		return os.O_WRONLY | os.O_CREATE | os.O_EXCL, nil //nolint:nilerr // creating the file reports what is wrong
	}
	if info, err := os.Stat(g.UnknownAuthors); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return os.O_WRONLY, nil
	}
	return 0, fmt.Errorf(
		"write unknown authors: %s exists and may have been completed: use another file",
		g.UnknownAuthors,
	)
}

// openGitState opens the deduplication store.
func openGitState(ctx context.Context, cfg Config, deps Deps) (s *state, err error) {
	s = new(state)
	switch {
	case cfg.DryRun:
		err = s.openOverlay(cfg)
	case cfg.StateDir != "":
		if s.dedup, err = openDedup(ctx, cfg, deps); err == nil {
			s.topics, s.generation = topicReader(cfg), s.dedup.Generation()
		}
	}
	if err != nil {
		return s, errors.Join(err, s.close())
	}
	return s, nil
}

// gitInput is a repository of a run.
type gitInput struct {
	*gitlog.Repository // nil if it could not be opened
	dir                string
	err                error
}

// openRepositories opens the repositories at or below dirs. A named repository must be readable; an
// unreadable one found in a directory fails alone.
func openRepositories(ctx context.Context, deps Deps, dirs []string, options gitlog.Options) ([]gitInput, error) {
	if len(dirs) == 0 {
		return nil, errors.New("no repository given")
	}
	var all []gitInput
	var errs []error
	for _, dir := range dirs {
		found, unreadable, err := gitlog.Find(dir)
		errs = append(errs, err)
		for _, path := range unreadable {
			deps.Logger.Warn("git: directory cannot be read", slog.String("path", path))
		}
		for _, path := range found {
			repo, err := gitlog.Open(ctx, path, options)
			if path == dir {
				errs = append(errs, err)
			}
			if err == nil && repo.Reread() {
				deps.Logger.Warn("git: topics were reset, reading the full history again", slog.String("path", path))
			}
			all = append(all, gitInput{repo, path, err})
		}
	}
	return all, errors.Join(errs...)
}

// Unattributed counts the commits dropped because their authors have no known account.
type Unattributed struct {
	Commits int64 `json:"commits"`
	Authors int64 `json:"authors"`
	// Noted reports whether some of these histories are recorded as read, so that only GitConfig.FullHistory reads them
	// again.
	Noted bool `json:"noted,omitzero"`
}

// String returns the counts and the flags that keep these commits.
func (u Unattributed) String() string {
	full := ""
	if u.Noted {
		full = "--full-history "
	}
	return fmt.Sprintf("%s of %s dropped, because no account is known; "+
		"pass %s--make-accounts to keep them, or %s--authors FILE",
		plural(u.Commits, "commit"), plural(u.Authors, "author"), full, full)
}

// report adds what could not be published to the summary, logs it, and writes the file UnknownAuthors.
func (g GitConfig) report(deps Deps, repositories []gitInput, s *Summary) error {
	unknown := make(map[string]*gitlog.Unknown)
	var order, unowned []string
	for _, repo := range repositories {
		if repo.Repository == nil {
			continue
		}
		for _, w := range repo.Warnings() {
			deps.Logger.Warn("git: "+w, slog.String("path", repo.dir))
		}
		commits, authors := repo.Unattributed()
		s.Unattributed.Commits += commits
		s.Unattributed.Noted = s.Unattributed.Noted || commits > 0 && repo.Kept()
		if repo.Kept() && !repo.OwnerKnown() {
			unowned = append(unowned, repo.dir)
		}
		for _, a := range authors {
			if u, ok := unknown[a.Email]; ok {
				u.Commits += a.Commits
				continue
			}
			unknown[a.Email] = &a
			order = append(order, a.Email)
		}
	}
	s.Unattributed.Authors = int64(len(order))
	if len(unowned) > 0 {
		deps.Logger.Warn("git: repositories without a known owner are not published",
			slog.Int("repositories", len(unowned)), slog.String("first", unowned[0]),
			slog.String("hint", "set --owner ID:USERNAME --full-history"))
	}
	if g.UnknownAuthors == "" {
		return nil
	}
	mode, err := g.unknownMode()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(g.UnknownAuthors, mode, 0o600)
	if err != nil {
		return fmt.Errorf("write unknown authors: %w", err)
	}
	w := csv.NewWriter(f)
	err = w.Write([]string{"email", "user_id", "username", "name", "commits"})
	for _, email := range order {
		u := unknown[email]
		err = errors.Join(err, w.Write([]string{u.Email, "", "", u.Name, strconv.FormatInt(u.Commits, 10)}))
	}
	w.Flush()
	if err := errors.Join(err, w.Error(), f.Close()); err != nil {
		return fmt.Errorf("write unknown authors: %w", err)
	}
	return nil
}
