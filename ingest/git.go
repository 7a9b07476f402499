package ingest

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"muster/ingest/internal/convert"
	"muster/ingest/internal/gitlog"
	"muster/ingest/internal/source"
)

// gitDir is the folder, in Config.StateDir, of how far repositories are read.
const gitDir = "git"

// GitConfig says whose the commits of repositories are.
type GitConfig struct {
	// Authors is a CSV file with the columns email, user_id, username: accounts
	// that the operator knows. It may be empty.
	Authors string
	// NoReplyHosts are code hosts beside the known ones whose no-reply addresses
	// are read: "git.example" for "1+jane@users.noreply.git.example".
	NoReplyHosts []string
	// MakeAccounts makes up an account for each author who has none.
	MakeAccounts bool
	// OwnerID and OwnerName are the account that the repositories belong to;
	// OwnerID is 0 if the remote "origin" tells.
	OwnerID   int64
	OwnerName string
	// Full reads all of the history, whatever was read before.
	Full bool
	// Unknown is a file that is made with the authors who have no account, in
	// the form of Authors, to be filled in. It may be empty; one that is there is an
	// error, since it may have been filled in, and a pipe or a device is written to.
	Unknown string
}

// Git publishes what is new in the history of local git repositories: of each
// commit whose author's account is known a codehost-commit, of these authors
// codehost-persons, of a repository whose owner is known a codehost-repo. Commits
// of other authors count as dropped [Foreign] objects. A folder that is no repository
// stands for those in it and below.
//
// With Config.StateDir it is noted how far a repository is read, once all of it is
// stored; a run that was cut short begins where the one before it ended. Nothing is
// noted of a repository of which all commits were dropped. With
// Config.Again all of the history is read. Summary and error are those of [Files]; a
// run that dropped all commits ends with [ExitRejected].
func Git(ctx context.Context, cfg Config, deps Deps, git GitConfig, folders []string) (Summary, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Summary{}, failed("ingest git", err)
	}
	deps = deps.withDefaults()
	meters, err := newMetrics(deps.Registerer)
	if err != nil {
		return Summary{}, failed("ingest git", err)
	}
	options, err := git.options(cfg)
	if err != nil {
		return Summary{}, failed("ingest git", err)
	}
	if !cfg.DryRun {
		if err := ensureTopics(ctx, cfg, deps.Logger); err != nil {
			return Summary{}, failed("ingest git", err)
		}
		if err := deps.Suppressed.WaitLoaded(ctx); err != nil {
			return Summary{}, failed("ingest git", err)
		}
	}
	kept, err := gitState(ctx, cfg, deps)
	if err != nil {
		return Summary{}, failed("ingest git", err)
	}
	if cfg.revision, err = kept.revision(ctx, cfg, deps); err != nil {
		return Summary{}, failed("ingest git", errors.Join(err, kept.close()))
	}
	options.Generation = kept.generation
	repositories, err := openRepositories(ctx, deps, folders, options)
	if err != nil {
		return Summary{}, failed("ingest git", errors.Join(err, kept.close()))
	}
	r := newRun(ctx, cfg, deps, meters, nil, kept.known())
	for _, repo := range repositories {
		r.add(repo.folder, convert.Foreign, -1, func(ctx context.Context, _ source.Position) (source.Source, error) {
			if repo.err != nil {
				return nil, repo.err
			}
			return repo.Log(ctx)
		})
	}
	s, outcome := r.finish()
	errs := []error{kept.finish(ctx, deps, s, outcome)}
	for i, repo := range repositories {
		if s.Files[i].Complete && repo.Kept() && !cfg.DryRun && cfg.StateDir != "" {
			errs = append(errs, repo.Done())
		}
	}
	errs = append(errs, git.report(deps, repositories, &s))
	if total := s.Total(); outcome == nil && s.Unattributed.Commits > 0 && total.accounted() == total.Dropped {
		outcome = &ExitError{Code: ExitRejected, Err: fmt.Errorf("ingest git: nothing was kept: %s", s.Unattributed)}
	}
	return s, alsoFailed("ingest git", outcome, errors.Join(errs...))
}

func (g GitConfig) options(cfg Config) (gitlog.Options, error) {
	o := gitlog.Options{
		Full: g.Full || cfg.Again || cfg.Remap, NoReplyHosts: g.NoReplyHosts, MakeAccounts: g.MakeAccounts,
		Owner: gitlog.Account{ID: g.OwnerID, Username: g.OwnerName},
	}
	if (g.OwnerID != 0) != (g.OwnerName != "") || g.OwnerID < 0 {
		return o, errors.New("an owner has a positive id and a name")
	}
	if _, err := g.unknownMode(); err != nil { // told before anything is read
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

// unknownMode says how Unknown is opened: made anew, unless it is a pipe or a device, which hold nothing.
func (g GitConfig) unknownMode() (int, error) {
	if _, err := os.Lstat(g.Unknown); err != nil {
		return os.O_WRONLY | os.O_CREATE | os.O_EXCL, nil //nolint:nilerr // what is wrong is told by making it
	}
	if info, err := os.Stat(g.Unknown); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return os.O_WRONLY, nil
	}
	return 0, fmt.Errorf("write unknown authors: %s is there already, and may have been filled in: name another file", g.Unknown)
}

// gitState opens what is known of identities.
func gitState(ctx context.Context, cfg Config, deps Deps) (s *state, err error) {
	s = new(state)
	switch {
	case cfg.DryRun:
		err = s.openScratch(cfg)
	case cfg.StateDir != "":
		if s.versions, err = openVersions(ctx, cfg, deps); err == nil {
			s.topics, s.generation = topicsOf(cfg), s.versions.Generation()
		}
	}
	if err != nil {
		return s, errors.Join(err, s.close())
	}
	return s, nil
}

// gitInput is a repository of a run.
type gitInput struct {
	*gitlog.Repository // nil if it cannot be opened
	folder             string
	err                error
}

// openRepositories opens the repositories that folders name. One that is named itself must be readable; one that is
// found in a folder fails alone.
func openRepositories(ctx context.Context, deps Deps, folders []string, options gitlog.Options) ([]gitInput, error) {
	if len(folders) == 0 {
		return nil, errors.New("no repository is named")
	}
	var all []gitInput
	var errs []error
	for _, folder := range folders {
		found, unreadable, err := gitlog.Find(folder)
		errs = append(errs, err)
		for _, path := range unreadable {
			deps.Logger.Warn("git: folder cannot be read", "path", path)
		}
		for _, path := range found {
			repo, err := gitlog.Open(ctx, path, options)
			if path == folder {
				errs = append(errs, err)
			}
			if err == nil && repo.Again() {
				deps.Logger.Warn("git: topics are new, history is read again", "repository", path)
			}
			all = append(all, gitInput{repo, path, err})
		}
	}
	return all, errors.Join(errs...)
}

// Unattributed are the commits that a run dropped because no account of their authors is known.
type Unattributed struct {
	Commits int64 `json:"commits"`
	Authors int64 `json:"authors"`
	// Noted says that some of these histories count as read: only GitConfig.Full reads them again.
	Noted bool `json:"noted,omitzero"`
}

// String returns the counts, and the flags that keep these commits.
func (u Unattributed) String() string {
	full := ""
	if u.Noted {
		full = "--full "
	}
	return fmt.Sprintf("%s of %s dropped, because no account is known; "+
		"pass %s--make-accounts to keep them, or %s--authors FILE",
		plural(u.Commits, "commit"), plural(u.Authors, "author"), full, full)
}

// report says what could not be made a record, and how it can be.
func (g GitConfig) report(deps Deps, repositories []gitInput, s *Summary) error {
	unknown := make(map[string]*gitlog.Unknown)
	var order, unowned []string
	for _, repo := range repositories {
		if repo.Repository == nil {
			continue
		}
		for _, w := range repo.Warnings() {
			deps.Logger.Warn("git: "+w, "repository", repo.folder)
		}
		commits, authors := repo.Unattributed()
		s.Unattributed.Commits += commits
		s.Unattributed.Noted = s.Unattributed.Noted || commits > 0 && repo.Kept()
		if repo.Kept() && !repo.OwnerKnown() {
			unowned = append(unowned, repo.folder)
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
		deps.Logger.Warn("git: repositories are not published, their owners are unknown",
			"repositories", len(unowned), "first", unowned[0], "hint", "name the owner with --owner ID:USERNAME --full")
	}
	if g.Unknown == "" {
		return nil
	}
	mode, err := g.unknownMode()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(g.Unknown, mode, 0o600)
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
