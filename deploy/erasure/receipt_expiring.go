package erasure

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/segmentio/kafka-go"

	"muster/platform/bus"
	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Passing is a topic that is not compacted. Its messages about the request's people are not shown, and expire by age.
type Passing struct {
	Place
	// GoneBy is when the newest remaining message has expired, or zero if none remains.
	GoneBy time.Time `json:"gone_by,omitzero"`
	// UntilThen describes what prevents the messages from being shown or sent.
	UntilThen string `json:"until_then"`
}

// untilThen describes how the readers of a topic treat messages about erased people.
func untilThen(topic string) string {
	switch topic {
	case event.TopicWebhookTask:
		return "a pending delivery is dead-lettered before it is sent"
	case event.TopicWebhook, event.TopicWebhookState:
		return "the log of deliveries is redacted in its table; the topic is not shown"
	case event.TopicDiscovery, event.TopicDiscoveryTask:
		return "results are checked against the suppression set before they are shown, and tasks before they are " +
			"processed"
	case event.TopicContext, event.TopicContextTask:
		return "profiles are checked against the suppression set before they are shown or sent"
	}
	return "the content of such dead letters and rejected records is not shown"
}

// searchExpiring searches the topics that are not compacted, including dead letters and rejected records, and the state
// of deliveries. The ledger and account topics contain no identities of people, or only keyed hashes.
func searchExpiring(ctx context.Context, cfg bus.Config, set *suppress.Set) ([]Passing, error) {
	retention := map[string]time.Duration{}
	var names []string
	for _, t := range event.Topics() {
		switch t.Name {
		case event.TopicUsage, event.TopicAccount, event.TopicErasure, event.TopicErasureRequest:
			continue
		}
		if !t.Personal {
			retention[t.Name] = t.Retention
			names = append(names, t.Name)
		}
	}
	dead, err := bus.TopicNames(ctx, cfg, event.DeadTopicPrefix)
	if err != nil {
		return nil, fmt.Errorf("list the dead-letter topics: %w", err)
	}
	letters := event.DeadLetterTopic("", "").Retention
	for _, name := range dead {
		retention[name] = letters
		names = append(names, name)
	}
	var out []Passing
	for _, name := range names {
		p := Passing{Place: Place{Name: name}, UntilThen: untilThen(name)}
		err := bus.Scan(ctx, cfg, []string{name}, func(m kafka.Message) error {
			p.Looked++
			if !Mentions(set, name, &m) {
				return nil
			}
			p.Remaining++
			if gone := m.Time.Add(retention[name]).UTC(); retention[name] > 0 && gone.After(p.GoneBy) {
				p.GoneBy = gone
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("search %s: %w", name, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// Mentions reports whether a message contains data about people in the set. Its topic may be one of dead letters or
// rejected records.
func Mentions(set *suppress.Set, topic string, m *kafka.Message) bool {
	document := func(raw []byte) bool {
		_, hit := set.FindInDocument(identity.Default(), raw)
		return hit
	}
	account := func(a event.Account) bool {
		_, hit := set.Account(a.Platform, identity.NormalizeUsername(a.Username))
		return hit
	}
	switch topic {
	case event.TopicWebhookTask:
		var t event.WebhookTask
		if json.Unmarshal(m.Value, &t) == nil {
			return set.IsAnyNamed(t.Identities) || document(t.Body) || document([]byte(t.URL))
		}
	case event.TopicWebhook:
		var a event.WebhookAttempt
		if json.Unmarshal(m.Value, &a) == nil {
			return document([]byte(a.Response))
		}
	case event.TopicRejected:
		var r event.Rejected
		if json.Unmarshal(m.Value, &r) == nil {
			return ofKind(set, r.Kind, r.Raw)
		}
	case event.TopicDiscoveryTask:
		var t event.DiscoveryTask
		if json.Unmarshal(m.Value, &t) == nil {
			return account(t.Input)
		}
	case event.TopicDiscovery:
		var d event.Discovery
		if json.Unmarshal(m.Value, &d) == nil {
			hit := account(d.Input)
			for _, s := range d.Socials {
				_, byID := set.ID(s.Platform, s.Identity)
				hit = hit || byID || account(s.Account)
			}
			return hit
		}
	case event.TopicContext:
		var c event.Context
		if json.Unmarshal(m.Value, &c) == nil && set.IsAnyNamed(c.Identities) {
			return true
		}
	}
	if d, err := event.ParseDead(func(name string) string { return header(m, name) }); err == nil && d.Topic != topic {
		for _, def := range record.Definitions() {
			if def.Topic == d.Topic {
				return ofKind(set, def.Kind, m.Value)
			}
		}
		return Mentions(set, d.Topic, &kafka.Message{Value: m.Value})
	}
	return document(m.Value)
}

func header(m *kafka.Message, name string) string {
	for _, h := range m.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// ofKind reports whether raw, an attempted record of a kind, contains data about people in the set.
func ofKind(set *suppress.Set, kind record.Kind, raw []byte) bool {
	_, hit := set.FindInDocumentOf(identity.Default(), kind.Platform(), raw)
	return hit
}
