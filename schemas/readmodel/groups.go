package readmodel

import (
	"muster/schemas/event"
	"muster/schemas/record"
)

// Consumer groups of the projector. Everything before their committed offsets is in the read models, unless it was
// lost.
const (
	RecordsGroup = "muster.projector.records"         // RecordTopics
	AnswersGroup = "muster.projector.answers"         // event.TopicAnswerTask, which the former group publishes
	LinkedGroup  = "muster.projector.linked-accounts" // event.TopicAnswerTask
	UsageGroup   = "muster.projector.usage"           // event.TopicUsage, the ledger
)

// RecordTopics returns the topics of records and version bumps.
func RecordTopics() []string {
	var topics []string
	for _, d := range record.Definitions() {
		topics = append(topics, d.Topic)
	}
	return append(topics, event.TopicVersionBump)
}
