package erasure

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"muster/projector/answers"
	"muster/projector/linked"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// scheduleRebuild records the accounts whose commits by erased authors are about to be deleted: their answers
// must be rebuilt. The schedule survives failed attempts.
func (e *Eraser) scheduleRebuild(f *matches) {
	for _, key := range f.commits {
		owner, _, _ := strings.Cut(key, "/")
		if id, err := strconv.ParseInt(owner, 10, 64); err == nil {
			e.answersToRebuild[id] = true
		}
	}
}

// touchPeople publishes touches of the matched network people, whose documents in the search index are then deleted, and
// of others, whose linked accounts are then read again. Linking marks the latter.
func (e *Eraser) touchPeople(ctx context.Context, f *matches, others []string, linking bool) error {
	if e.deps.Search != nil {
		if err := linked.Touch(ctx, e.writer, event.AnswerTask{}, f.ids(identity.Network)); err != nil {
			return err
		}
	}
	return linked.Touch(ctx, e.writer, event.AnswerTask{Linking: linking}, others)
}

// linkedPeople returns the people who are linked with matched accounts.
func (e *Eraser) linkedPeople(ctx context.Context, f *matches) (people []string, err error) {
	var accounts []int64
	for _, id := range f.ids(identity.Codehost) {
		if n, err := strconv.ParseInt(id, 10, 64); err == nil {
			accounts = append(accounts, n)
		}
	}
	for part := range slices.Chunk(accounts, idsPerStatement) {
		some, err := readmodel.LinkedWith(ctx, e.deps.Conn, part)
		if err != nil {
			return nil, answers.RedactError(err)
		}
		people = append(people, some...)
	}
	return people, nil
}

// scheduleDiffering records the accounts whose answers differ from their rows: an eraser that was killed may
// have deleted commits without rebuilding the answers.
func (e *Eraser) scheduleDiffering(ctx context.Context) error {
	return answers.Scan(ctx, e.deps.Conn, readmodel.AnswersTable, func(ids []int64) error {
		for _, id := range ids {
			e.answersToRebuild[id] = true
		}
		return nil
	})
}

// rebuild rebuilds the answers of the scheduled accounts. It also publishes touches, so that answers built
// concurrently from older rows are built again.
func (e *Eraser) rebuild(ctx context.Context) error {
	for part := range slices.Chunk(slices.Sorted(maps.Keys(e.answersToRebuild)), idsPerStatement) {
		if err := e.checkNotWithdrawn(); err != nil {
			return err
		}
		if err := answers.RebuildAll(ctx, e.deps.Conn, e.layout, part); err != nil {
			return answers.RedactError(err)
		}
		touched := make(map[int64]int64, len(part))
		for _, id := range part {
			touched[id] = 0
		}
		if err := answers.Touch(ctx, e.writer, touched); err != nil {
			return err
		}
		for _, id := range part {
			e.rebuiltAnswers[id] = true
		}
	}
	if _, err := e.dropReplaced(ctx); err != nil {
		return err
	}
	clear(e.answersToRebuild)
	return nil
}

// rebuildDiffering rebuilds the answers that differ from their rows again. A build that began before the sweep and ended
// after the rebuild has written them from older rows, and the touch that follows may not be handled yet.
func (e *Eraser) rebuildDiffering(ctx context.Context) error {
	for part := range slices.Chunk(slices.Sorted(maps.Keys(e.rebuiltAnswers)), idsPerStatement) {
		differing, err := readmodel.DifferingAmong(ctx, e.deps.Conn, readmodel.AnswersTable, part)
		if err != nil {
			return answers.RedactError(err)
		}
		if err := answers.RebuildAll(ctx, e.deps.Conn, e.layout, differing); err != nil {
			return answers.RedactError(err)
		}
	}
	return nil
}

// dropReplaced deletes superseded rows of rebuilt answers, which may contain commits of erased authors. It
// reports whether there were any.
func (e *Eraser) dropReplaced(ctx context.Context) (bool, error) {
	if len(e.rebuiltAnswers) == 0 {
		return false, nil
	}
	shadows, err := answers.ShadowTables(ctx, e.deps.Conn, e.layout)
	if err != nil {
		return false, err
	}
	some := false
	for part := range slices.Chunk(slices.Sorted(maps.Keys(e.rebuiltAnswers)), idsPerStatement) {
		for _, table := range append(slices.Clone(shadows), readmodel.AnswersTable) {
			replaced, err := readmodel.ReplacedAnswers(ctx, e.deps.Conn, e.layout.From(table), part)
			if err != nil {
				return some, answers.RedactError(err)
			}
			some = some || len(replaced) > 0
			if err := e.deleteHashes(ctx, table, readmodel.AnswerHash, replaced); err != nil {
				return some, err
			}
		}
	}
	return some, nil
}
