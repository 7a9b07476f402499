package evaluate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/go-json-experiment/json"

	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/readmodel"
	"muster/schemas/record"
	"muster/schemas/sampledata"
)

// Question is an input account with its ground truth.
type Question struct {
	Entity int
	Input  event.Account
	// Truth is the stable ID of the same person's account by platform. Platforms without one are
	// absent.
	Truth map[string]string
	// Linked reports by platform whether a record links the two accounts.
	Linked map[string]bool
	Script string // script of the name: latin or other
}

// entity is a line of the ground truth.
type entity struct {
	Type     string   `json:"type"`
	Class    string   `json:"class"`
	Index    int      `json:"index"`
	Name     string   `json:"name"`
	Native   string   `json:"native_name"`
	Emails   []string `json:"emails"`
	Accounts []struct {
		Platform  string  `json:"platform"`
		Identity  string  `json:"identity"`
		Username  *string `json:"username"`
		Withdrawn bool    `json:"withdrawn"`
	} `json:"accounts"`
	Links []struct {
		From      event.Account `json:"from"`
		To        event.Account `json:"to"`
		Own       bool          `json:"own"`
		Withdrawn bool          `json:"withdrawn"`
	} `json:"links"`
}

// sink projects records and collects the people of the ground truth.
type sink struct {
	ctx      context.Context // world.Sink passes none
	conn     driver.Conn
	renderer *readmodel.Renderer
	batch    readmodel.Batch
	name     string
	n        int
	people   []entity
}

// Record projects a record that discovery reads.
func (s *sink) Record(kind string, text []byte) error {
	switch kind {
	case sampledata.NetworkPerson, sampledata.CodehostPerson, sampledata.MicroblogPerson, sampledata.AccountLink:
	default:
		return nil
	}
	return s.project(kind, text)
}

func (s *sink) project(kind string, text []byte) error {
	r, err := record.Decode(record.Kind(kind), slices.Clone(text))
	if err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if _, rejected := r.SplitEmbedded(); len(rejected) > 0 {
		return errors.New("the data has an invalid record")
	}
	s.n++
	if err := s.renderer.Rows(&s.batch, r, readmodel.Position{Topic: "world", Offset: int64(s.n)}); err != nil {
		return err
	}
	if s.batch.Records() >= 20_000 {
		return s.flush()
	}
	return nil
}

func (s *sink) flush() error {
	if err := readmodel.Insert(s.ctx, s.conn, fmt.Sprintf("%s-%d", s.name, s.n), &s.batch); err != nil {
		return fmt.Errorf("project: %w", err)
	}
	s.batch.Reset()
	return nil
}

// Truth collects the people of the ground truth.
func (s *sink) Truth(line []byte) error {
	var e entity
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("read truth: %w", err)
	}
	if e.Type == "entity" && e.Class == "person" {
		s.people = append(s.people, e)
	}
	return nil
}

// Load generates synthetic data into empty read models and samples questions, at most one for each
// person.
func Load(ctx context.Context, conn driver.Conn, people int, seed uint64, questions int) ([]Question, error) {
	s := &sink{ctx: ctx, conn: conn, renderer: readmodel.NewRenderer(identity.Default()),
		name: fmt.Sprintf("world-%d", seed)}
	if err := sampledata.Generate(ctx, sampledata.Options{People: people, Seed: seed}, s, nil); err != nil {
		return nil, fmt.Errorf("generate synthetic data: %w", err)
	}
	if err := s.flush(); err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // a repeatable draw
	r.Shuffle(len(s.people), func(i, j int) { s.people[i], s.people[j] = s.people[j], s.people[i] })
	var out []Question
	for _, e := range s.people {
		if len(out) == questions {
			break
		}
		if q, ok := e.question(r); ok {
			out = append(out, q)
		}
	}
	return out, nil
}

// question returns a random account of a person, and false if there is none.
func (e *entity) question(r *rand.Rand) (Question, bool) {
	var live []int
	for i, a := range e.Accounts {
		if a.Username != nil && !a.Withdrawn && identity.KnownPlatform(a.Platform) {
			live = append(live, i)
		}
	}
	if len(live) == 0 {
		return Question{}, false
	}
	a := e.Accounts[live[r.IntN(len(live))]]
	q := Question{
		Entity: e.Index, Input: event.Account{Platform: a.Platform, Username: *a.Username},
		Truth: make(map[string]string), Linked: make(map[string]bool), Script: "latin",
	}
	if slices.ContainsFunc(identity.NameBlockingKeys(e.Native), func(k string) bool { return k[0] == '=' }) {
		q.Script = "other"
	}
	for _, i := range live {
		if b := e.Accounts[i]; b.Platform != a.Platform {
			q.Truth[b.Platform] = b.Identity
		}
	}
	for _, l := range e.Links {
		if !l.Own || l.Withdrawn {
			continue
		}
		switch a.Platform {
		case l.From.Platform:
			q.Linked[l.To.Platform] = true
		case l.To.Platform:
			q.Linked[l.From.Platform] = true
		}
	}
	return q, true
}
