package searchsink

import (
	"context"
	"fmt"
	"net/http"

	"muster/platform/bus"
	"muster/platform/opensearch"
	"muster/schemas/event"
	"muster/schemas/readmodel"
)

// Purger removes deleted documents of people from the files of their indexes. OpenSearch retains the operations of an
// index for its replicas, and with them the documents that these deleted, until retention leases have advanced, which
// takes about a minute; only then does a merge remove them. It is not safe for concurrent use.
type Purger struct {
	indexes
	kafka bus.Config
	group string

	ends  []bus.PartitionOffsets // of the topic of touches at the start; nil: no purge is running
	after map[string]int64       // newest operation by index and shard, once the touches are processed
}

// NewPurger returns a Purger. It does not connect.
func NewPurger(client *opensearch.Client, kafka bus.Config) *Purger {
	return &Purger{indexes: newIndexes(client, readmodel.PeopleCollection().Name), kafka: kafka, group: Group}
}

// Begin starts a purge of what is deleted by the touches published so far.
func (p *Purger) Begin() { p.ends, p.after = nil, nil }

// Purge goes on with a purge, and reports whether it is complete. Call it again until it is.
func (p *Purger) Purge(ctx context.Context) (complete bool, err error) {
	if p.after == nil {
		return false, p.begin(ctx)
	}
	shards, err := p.shards(ctx)
	if err != nil {
		return false, err
	}
	for name, s := range shards {
		if after, known := p.after[name]; known && s.retained <= after {
			return false, nil
		}
	}
	for _, action := range []string{
		"/_flush?wait_if_ongoing=true", "/_forcemerge?only_expunge_deletes=true", "/_refresh",
		"/_flush?force=true&wait_if_ongoing=true",
	} {
		if err := p.post(ctx, action); err != nil {
			return false, err
		}
	}
	p.Begin()
	return true, nil
}

func (p *Purger) post(ctx context.Context, action string) error {
	ctx, cancel := context.WithTimeout(ctx, mergeTimeout)
	defer cancel()
	if err := p.client.Do(ctx, http.MethodPost, "/"+p.names.Pattern()+action, nil, nil); err != nil {
		return fmt.Errorf("purge search index: %w", err)
	}
	return nil
}

// begin notes the newest operations, once all touches are processed that were published before the first call.
func (p *Purger) begin(ctx context.Context) (err error) {
	if p.ends == nil {
		if p.ends, err = bus.EndOffsets(ctx, p.kafka, []string{event.TopicAnswerTask}); err != nil {
			return fmt.Errorf("purge search index: %w", err)
		}
	}
	lags, err := bus.Lag(ctx, p.kafka, p.group, []string{event.TopicAnswerTask})
	if err != nil {
		return fmt.Errorf("purge search index: %w", err)
	}
	for _, l := range lags {
		for _, e := range p.ends {
			if e.Partition == l.Partition && e.End > e.First && l.Next < min(e.End, l.End) {
				return nil
			}
		}
	}
	shards, err := p.shards(ctx)
	if err != nil {
		return err
	}
	p.after = make(map[string]int64, len(shards))
	for name, s := range shards {
		p.after[name] = s.newest
	}
	return nil
}

// shard is the state of a primary shard.
type shard struct {
	newest   int64 // sequence number of the newest operation
	retained int64 // operations from this sequence number on are retained
}

// shards returns the primary shards by index and number.
func (p *Purger) shards(ctx context.Context) (map[string]shard, error) {
	var res struct {
		Indices map[string]struct {
			Shards map[string][]struct {
				Routing struct {
					Primary bool `json:"primary"`
				} `json:"routing"`
				SeqNo struct {
					Max int64 `json:"max_seq_no"`
				} `json:"seq_no"`
				Leases struct {
					Leases []struct {
						Retaining int64 `json:"retaining_seq_no"`
					} `json:"leases"`
				} `json:"retention_leases"`
			} `json:"shards"`
		} `json:"indices"`
	}
	path := "/" + p.names.Pattern() + "/_stats/docs?level=shards"
	if err := p.client.Do(ctx, http.MethodGet, path, nil, &res); err != nil {
		return nil, fmt.Errorf("purge search index: %w", err)
	}
	out := make(map[string]shard)
	for index, i := range res.Indices {
		for number, copies := range i.Shards {
			for _, c := range copies {
				if !c.Routing.Primary {
					continue
				}
				s := shard{newest: c.SeqNo.Max, retained: c.SeqNo.Max + 1}
				for _, l := range c.Leases.Leases {
					s.retained = min(s.retained, l.Retaining)
				}
				out[index+"/"+number] = s
			}
		}
	}
	return out, nil
}
