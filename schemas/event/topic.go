package event

import (
	"strconv"
	"time"

	"muster/schemas/record"
)

// Names of the topics that do not carry records. The topic of a kind of record is
// in its definition.
const (
	TopicSeen     = "muster.record.seen.v1"
	TopicRejected = "muster.record.rejected.v1"
	TopicErasure  = "muster.event.erasure.v1"
	// TopicErasureRequest is the log of who asked for what and what was done.
	TopicErasureRequest = "muster.event.erasure-request.v1"

	TopicAccount   = "muster.event.account.v1"
	TopicUsage     = "muster.event.usage.v1"
	TopicDiscovery = "muster.event.discovery.v1"
	TopicContext   = "muster.event.context.v1"
	TopicWebhook   = "muster.event.webhook.v1"

	TopicDiscoveryTask = "muster.task.discovery.v1"
	TopicContextTask   = "muster.task.context.v1"
	TopicWebhookTask   = "muster.task.webhook.v1"
	// TopicAnswerTask names identities whose answers are to be built; TopicLargeAnswerTask those of them with so many
	// rows that they are built apart and less often.
	TopicAnswerTask      = "muster.task.answer.v1"
	TopicLargeAnswerTask = "muster.task.large-answer.v1"

	TopicWebhookState = "muster.state.webhook.v1"
)

const (
	day = 24 * time.Hour
	// forever keeps what a topic has: the ledger, and the last value of a
	// compacted key.
	forever time.Duration = -1
	// transientRetention bounds how long personal data stays on a topic that is
	// not compacted; letterRetention is for rejected and dead letters.
	transientRetention = 7 * day
	letterRetention    = 30 * day
	// touchRetention is enough for touches: what differs is found without them, too.
	touchRetention = day
	// segmentAge and cleaningLag together stay below a day, which is how long what was
	// erased may be in a log (deploy/docs/erasure.md).
	segmentAge  = 6 * time.Hour
	cleaningLag = 12 * time.Hour
	// maxMessageBytes leaves room around a record of 1 MiB.
	maxMessageBytes = 2 << 20
)

// TombstoneAge is how long tombstones stay on topics whose keys are identities.
const TombstoneAge = time.Minute

// Topic describes a Kafka topic: everything that creating it needs but the
// replication, which is the cluster's affair.
type Topic struct {
	Name string
	// Partitions is fixed for a topic's life, since keys are spread by it.
	Partitions int
	// Compacted topics keep the last message of each key.
	Compacted bool
	// Retention is how long messages are kept; negative means for ever.
	Retention time.Duration
	// Personal topics are compacted ones whose keys are identities of people.
	Personal bool
}

// Config returns the topic's settings under Kafka's names. Every setting that
// matters is set, so that no broker's default decides.
func (t Topic) Config() map[string]string {
	config := map[string]string{
		"cleanup.policy":    "delete",
		"max.message.bytes": strconv.Itoa(maxMessageBytes),
		"retention.ms":      milliseconds(t.Retention),
		// A segment is only cleaned when it is closed: four a day, so that what was
		// superseded or erased is gone within the day.
		"segment.ms": milliseconds(segmentAge),
	}
	if t.Compacted {
		config["cleanup.policy"] = "compact"
		config["delete.retention.ms"] = milliseconds(day)
		// What an erasure leaves a tombstone of is cleaned within the day, however
		// little of a partition is superseded.
		config["max.compaction.lag.ms"] = milliseconds(cleaningLag)
		if t.Personal {
			// A tombstone states nothing here and its key is an identity.
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

// Topics returns every topic of the platform but the dead letters', in a fixed
// order.
func Topics() []Topic {
	const (
		wide   = 8 // records: what bounds the number of projectors
		medium = 4 // tasks and events
		single = 1 // read whole by every replica
	)
	topics := make([]Topic, 0, 20)
	for _, d := range record.Definitions() {
		topics = append(topics, Topic{Name: d.Topic, Partitions: wide, Compacted: true, Retention: forever, Personal: true})
	}
	return append(topics,
		Topic{Name: TopicSeen, Partitions: wide, Compacted: true, Retention: forever, Personal: true},
		Topic{Name: TopicRejected, Partitions: medium, Retention: letterRetention},
		Topic{Name: TopicErasure, Partitions: single, Compacted: true, Retention: forever},
		Topic{Name: TopicErasureRequest, Partitions: single, Retention: forever},
		Topic{Name: TopicAccount, Partitions: single, Compacted: true, Retention: forever},
		Topic{Name: TopicUsage, Partitions: medium, Retention: forever},
		Topic{Name: TopicAnswerTask, Partitions: wide, Retention: touchRetention},
		Topic{Name: TopicLargeAnswerTask, Partitions: medium, Retention: touchRetention},
		Topic{Name: TopicDiscoveryTask, Partitions: medium, Retention: transientRetention},
		Topic{Name: TopicContextTask, Partitions: medium, Retention: transientRetention},
		Topic{Name: TopicDiscovery, Partitions: medium, Retention: transientRetention},
		Topic{Name: TopicContext, Partitions: medium, Retention: transientRetention},
		Topic{Name: TopicWebhookTask, Partitions: medium, Retention: transientRetention},
		Topic{Name: TopicWebhook, Partitions: medium, Retention: transientRetention},
		Topic{Name: TopicWebhookState, Partitions: medium, Compacted: true, Retention: forever},
	)
}

// DeadTopic returns the topic of the messages that a handler of a service gave
// up on.
func DeadTopic(service, handler string) Topic {
	return Topic{Name: "muster.dead." + service + "." + handler + ".v1", Partitions: 1, Retention: letterRetention}
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
