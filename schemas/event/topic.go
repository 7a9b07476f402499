package event

import (
	"strconv"
	"time"

	"muster/schemas/record"
)

// Names of the topics without records. Those of record topics are in record.Definitions.
const (
	TopicVersionBump = "muster.record.seen.v1"
	TopicRejected    = "muster.record.rejected.v1"
	TopicErasure     = "muster.event.erasure.v1"
	// TopicErasureRequest is the log of erasure requests and their status.
	TopicErasureRequest = "muster.event.erasure-request.v1"

	TopicAccount   = "muster.event.account.v1"
	TopicUsage     = "muster.event.usage.v1"
	TopicDiscovery = "muster.event.discovery.v1"
	TopicContext   = "muster.event.context.v1"
	TopicWebhook   = "muster.event.webhook.v1"
	TopicFeedback  = "muster.event.feedback.v1"

	TopicDiscoveryTask = "muster.task.discovery.v1"
	TopicContextTask   = "muster.task.context.v1"
	TopicWebhookTask   = "muster.task.webhook.v1"
	// TopicBulkJobTask has accepted bulk jobs, TopicBulkChunkTask the parts of running ones.
	TopicBulkJobTask   = "muster.task.bulk.v1"
	TopicBulkChunkTask = "muster.task.bulk-chunk.v1"
	// TopicAnswerTask has touches: identities whose answers must be built. TopicLargeAnswerTask has those
	// with so many rows that they are built separately and less often.
	TopicAnswerTask      = "muster.task.answer.v1"
	TopicLargeAnswerTask = "muster.task.large-answer.v1"

	TopicWebhookState = "muster.state.webhook.v1"
)

const (
	day = 24 * time.Hour
	// forever keeps all messages: the ledger, and the last value of each compacted key.
	forever time.Duration = -1
	// transientRetention bounds the retention of personal data on topics without compaction;
	// deadLetterRetention is for rejected records and dead letters.
	transientRetention  = 7 * day
	deadLetterRetention = 30 * day
	// touchRetention suffices for touches: outdated answers are also found without them.
	touchRetention = day
	// segmentAge and cleaningLag together are less than a day, the maximum time that erased data may remain
	// in a log (deploy/docs/erasure.md).
	segmentAge  = 6 * time.Hour
	cleaningLag = 12 * time.Hour
	// maxMessageBytes leaves room for the envelope of a record of 1 MiB.
	maxMessageBytes = 2 << 20
)

// TombstoneAge is how long topics keyed by identities retain tombstones.
const TombstoneAge = time.Minute

// Topic describes a Kafka topic: everything needed to create it, except the replication factor, which depends
// on the cluster.
type Topic struct {
	Name string
	// Partitions never changes, since it decides the partition of a key.
	Partitions int
	// Compacted topics keep the last message of each key.
	Compacted bool
	// Retention is how long messages are kept; negative: forever.
	Retention time.Duration
	// Personal topics are compacted and keyed by identities of people.
	Personal bool
}

// Config returns the topic's settings by Kafka name. It sets everything that matters, so that brokers'
// defaults do not apply.
func (t Topic) Config() map[string]string {
	config := map[string]string{
		"cleanup.policy":    "delete",
		"max.message.bytes": strconv.Itoa(maxMessageBytes),
		"retention.ms":      milliseconds(t.Retention),
		// Only closed segments are cleaned: with four segments a day, superseded and erased data is gone
		// within a day.
		"segment.ms": milliseconds(segmentAge),
	}
	if t.Compacted {
		config["cleanup.policy"] = "compact"
		config["delete.retention.ms"] = milliseconds(day)
		// Compact within a day even if little of a partition is superseded, so that erased data is removed.
		config["max.compaction.lag.ms"] = milliseconds(cleaningLag)
		if t.Personal {
			// Tombstones have no content here and their keys are identities.
			config["delete.retention.ms"] = milliseconds(TombstoneAge)
		}
	}
	return config
}

func milliseconds(d time.Duration) string {
	if d < 0 {
		return "-1"
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

// Topics returns all topics of the platform except dead-letter topics, in a fixed order.
func Topics() []Topic {
	const (
		wide   = 8 // records; the maximum number of projectors
		medium = 4 // tasks and events
		single = 1 // read completely by every replica
	)
	topics := make([]Topic, 0, 24)
	for _, d := range record.Definitions() {
		topics = append(topics, Topic{Name: d.Topic, Partitions: wide, Compacted: true, Retention: forever,
			Personal: true})
	}
	return append(topics,
		Topic{Name: TopicVersionBump, Partitions: wide, Compacted: true, Retention: forever, Personal: true},
		Topic{Name: TopicRejected, Partitions: medium, Retention: deadLetterRetention},
		Topic{Name: TopicErasure, Partitions: single, Compacted: true, Retention: forever},
		Topic{Name: TopicErasureRequest, Partitions: single, Retention: forever},
		Topic{Name: TopicAccount, Partitions: single, Compacted: true, Retention: forever},
		Topic{Name: TopicUsage, Partitions: medium, Retention: forever},
		Topic{Name: TopicAnswerTask, Partitions: wide, Retention: touchRetention},
		Topic{Name: TopicLargeAnswerTask, Partitions: medium, Retention: touchRetention},
		Topic{Name: TopicDiscoveryTask, Partitions: medium, Retention: transientRetention},
		Topic{Name: TopicContextTask, Partitions: medium, Retention: transientRetention},
		Topic{Name: TopicBulkJobTask, Partitions: medium, Retention: transientRetention},
		Topic{Name: TopicBulkChunkTask, Partitions: wide, Retention: transientRetention},
		Topic{Name: TopicDiscovery, Partitions: medium, Retention: transientRetention},
		Topic{Name: TopicContext, Partitions: medium, Retention: transientRetention},
		Topic{Name: TopicFeedback, Partitions: medium, Retention: transientRetention},
		Topic{Name: TopicWebhookTask, Partitions: medium, Retention: transientRetention},
		Topic{Name: TopicWebhook, Partitions: medium, Retention: transientRetention},
		Topic{Name: TopicWebhookState, Partitions: medium, Compacted: true, Retention: forever},
	)
}

// DeadLetterTopic returns the dead-letter topic of a handler of a service.
func DeadLetterTopic(service, handler string) Topic {
	return Topic{Name: "muster.dead." + service + "." + handler + ".v1", Partitions: 1, Retention: deadLetterRetention}
}

// CloudEvents types.
const (
	TypeOrganization = "io.muster.account.v1.organization"
	TypeKey          = "io.muster.account.v1.key"
	TypeRejected     = "io.muster.record.v1.rejected"
	TypeSeen         = "io.muster.record.v1.seen"
	TypeResubmitted  = "io.muster.letter.v1.resubmitted"
	TypeUsage        = "io.muster.usage.v1.call"
)

// RecordType returns the CloudEvents type of a record of the kind.
func RecordType(kind record.Kind) string { return "io.muster.record.v1." + string(kind) }
