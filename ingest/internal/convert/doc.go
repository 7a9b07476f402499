// Package convert converts lines of input to messages.
//
// A valid record becomes a message on its kind's topic, plus one for each record extracted from it.
// An invalid line, or an invalid embedded entry, becomes a message on the topic of rejected
// records, with reason and location (records.md, rule 4). Every line yields at least one message,
// except records that are dropped. Messages of one line follow the order of the record's parts, and
// messages of several lines the order of the lines.
//
// A [Converter] has no state between lines and is safe for concurrent use.
package convert
