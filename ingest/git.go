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
// of other authors count as dropped [Foreign] objects.
//
// With Config.StateDir it is noted how far a repository is read, once all of it is
// stored; a run that was cut short begins where the one before it ended. With
// Config.Again all of the history is read. Summary and error are those of [Files].
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
	repositories, err := openRepositories(folders, options)
	if err != nil {
		return Summary{}, failed("ingest git", errors.Join(err, kept.close()))
	}
	r := newRun(ctx, cfg, deps, meters, nil, kept.known())
	for i, repo := range repositories {
		if repo.Again() {
			deps.Logger.Warn("the topics are not those that the history was published to: all of it is read again", "repository", repo.Folder())
		}
		r.add(folders[i], convert.Foreign, -1, func(ctx context.Context, _ source.Position) (source.Source, error) {
			return repo.Log(ctx)
		})
	}
	s, outcome := r.finish()
	errs := []error{kept.finish(ctx, deps, s, outcome), git.report(deps, repositories)}
	for i, repo := range repositories {
		if s.Files[i].Complete && !cfg.DryRun && cfg.StateDir != "" {
			errs = append(errs, repo.Done())
		}
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

func openRepositories(folders []string, options gitlog.Options) ([]*gitlog.Repository, error) {
	if len(folders) == 0 {
		return nil, errors.New("no repository is named")
	}
	var all []*gitlog.Repository
	var errs []error
	for _, folder := range folders {
		repo, err := gitlog.Open(folder, options)
		errs = append(errs, err)
		all = append(all, repo)
	}
	return all, errors.Join(errs...)
}

// report says what could not be made a record, and how it can be.
func (g GitConfig) report(deps Deps, repositories []*gitlog.Repository) error {
	unknown := make(map[string]*gitlog.Unknown)
	var order []string
	for _, repo := range repositories {
		commits, authors := repo.Unattributed()
		if commits > 0 {
			deps.Logger.Warn("commits of authors without a known account are passed over; name them with --authors, or --make-accounts, and run again with --full",
				"repository", repo.Folder(), "commits", commits, "authors", len(authors))
		}
		if !repo.OwnerKnown() {
			deps.Logger.Warn("the repository itself is no record, because its owner's id is not known; name it with --owner, and run again with --full",
				"repository", repo.Folder())
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
