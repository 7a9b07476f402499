package evaluate

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"muster/discovery-worker/histories"
	"muster/discovery-worker/internal/finder"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// LoadHistories projects the records of histories into empty read models.
func LoadHistories(ctx context.Context, conn driver.Conn, data *histories.Data) error {
	s := &sink{ctx: ctx, conn: conn, renderer: readmodel.NewRenderer(identity.Default()), name: "histories"}
	for _, r := range data.Records {
		if err := s.project(string(r.Kind), r.JSON); err != nil {
			return err
		}
	}
	return s.flush()
}

// AskHistories runs discovery for the questions of histories. It returns the outcomes, and the
// answers for training.
func AskHistories(ctx context.Context, f *finder.Finder, data *histories.Data) ([]histories.Outcome, []Answer, error) {
	const callers = 4
	outcomes := make([]histories.Outcome, len(data.Questions))
	answers := make([][]Answer, len(data.Questions))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(callers)
	for i, q := range data.Questions {
		g.Go(func() error {
			began := time.Now()
			input := event.Account{Platform: identity.Codehost, Username: q.Username}
			d, ranked := f.Explain(ctx, input)
			if !d.Complete() {
				return fmt.Errorf("question %d: stages %v failed", i, d.Degraded)
			}
			outcomes[i] = histories.Outcome{Question: q, Took: time.Since(began)}
			for _, s := range d.Socials[1:] {
				if s.Platform == identity.Network {
					outcomes[i].Found, outcomes[i].Confidence = s.Username, s.Confidence
				}
			}
			truth := &Question{Input: input, Truth: make(map[string]string), Linked: make(map[string]bool)}
			if q.ProfileID != "" {
				truth.Truth[identity.Network] = q.ProfileID
			}
			truth.Linked[identity.Network] = q.Class == histories.Linked
			for _, a := range answersOf(truth, ranked) {
				if a.Platform == identity.Network {
					answers[i] = append(answers[i], a)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, fmt.Errorf("ask: %w", err)
	}
	var all []Answer
	for _, list := range answers {
		all = append(all, list...)
	}
	return outcomes, all, nil
}
