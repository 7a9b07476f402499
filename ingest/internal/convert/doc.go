// Package convert turns lines of input into the messages that are published for
// them.
//
// Its one job: a line that is a record of the kind becomes a message on the
// kind's topic and one for each record split off from it; a line that is none,
// or an embedded entry that is none, becomes a letter on the topic of rejected
// records with its reason and place (records.md, rule 4). Every line becomes at
// least one message: none is passed over. Messages of one line follow the order
// of the record's own parts; messages of several lines the order of the lines.
//
// A [Converter] holds no state between lines and may be used from any number of
// goroutines.
package convert
