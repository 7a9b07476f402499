package event

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// DeadLetter describes why and where processing of a message was abandoned. A dead letter, on the topic of
// [DeadLetterTopic], has the key, value and headers of the message and the headers of DeadLetter. To resubmit it,
// remove those headers and publish the rest to Topic.
type DeadLetter struct {
	// Service and Handler identify the consumer: "discovery-worker", "score".
	Service, Handler string
	// Topic, Partition and Offset are the position of the message.
	Topic     string
	Partition int
	Offset    int64
	// Code is a short failure class for filters, CodeFailed by default. Reason is a message without personal
	// data.
	Code, Reason string
	// Attempts is the number of failures, at least 1, between FirstFailure and LastFailure.
	Attempts                  int
	FirstFailure, LastFailure time.Time
}

// Names of the headers of a dead letter.
const (
	headerDeadService   = HeaderDeadPrefix + "service"
	headerDeadHandler   = HeaderDeadPrefix + "handler"
	headerDeadTopic     = HeaderDeadPrefix + "topic"
	headerDeadPartition = HeaderDeadPrefix + "partition"
	headerDeadOffset    = HeaderDeadPrefix + "offset"
	headerDeadCode      = HeaderDeadPrefix + "code"
	headerDeadReason    = HeaderDeadPrefix + "reason"
	headerDeadAttempts  = HeaderDeadPrefix + "attempts"
	headerDeadFirst     = HeaderDeadPrefix + "first_failure"
	headerDeadLast      = HeaderDeadPrefix + "last_failure"
)

// HeaderDeadPrefix is the prefix of the headers that a dead letter has in addition to those of the message.
const HeaderDeadPrefix = "muster_dead_"

// DeadTopicPrefix is the prefix of dead-letter topics.
const DeadTopicPrefix = "muster.dead."

// maxDeadReason is the maximum length of the reason in bytes.
const maxDeadReason = 1 << 10

// Set calls set with the headers of a dead letter; set must replace headers of the same name.
func (d DeadLetter) Set(set func(name, value string)) {
	reason := d.Reason
	if len(reason) > maxDeadReason {
		cut := maxDeadReason
		for cut > 0 && !utf8.RuneStart(reason[cut]) {
			cut--
		}
		reason = reason[:cut]
	}
	code := d.Code
	if code == "" {
		code = CodeFailed
	}
	set(headerDeadService, d.Service)
	set(headerDeadHandler, d.Handler)
	set(headerDeadTopic, d.Topic)
	set(headerDeadPartition, strconv.Itoa(d.Partition))
	set(headerDeadOffset, strconv.FormatInt(d.Offset, 10))
	set(headerDeadCode, code)
	set(headerDeadReason, strings.ToValidUTF8(reason, "\uFFFD"))
	set(headerDeadAttempts, strconv.Itoa(max(d.Attempts, 1)))
	set(headerDeadFirst, d.FirstFailure.UTC().Format(time.RFC3339Nano))
	set(headerDeadLast, d.LastFailure.UTC().Format(time.RFC3339Nano))
}

// ParseDead parses the headers written by Set. get must return "" for a missing header. The error names every
// header that is missing or invalid; the other fields are returned with it.
func ParseDead(get func(name string) string) (DeadLetter, error) {
	d := DeadLetter{
		Service: get(headerDeadService), Handler: get(headerDeadHandler), Topic: get(headerDeadTopic),
		Code: get(headerDeadCode), Reason: get(headerDeadReason),
	}
	var errs []error
	wrong := func(name string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("read dead letter: %s: %w", name, err))
		}
	}
	if d.Topic == "" {
		wrong(headerDeadTopic, errors.New("is missing"))
	}
	var err error
	d.Partition, err = strconv.Atoi(get(headerDeadPartition))
	wrong(headerDeadPartition, err)
	d.Offset, err = strconv.ParseInt(get(headerDeadOffset), 10, 64)
	wrong(headerDeadOffset, err)
	d.Attempts, err = strconv.Atoi(get(headerDeadAttempts))
	wrong(headerDeadAttempts, err)
	d.FirstFailure, err = time.Parse(time.RFC3339Nano, get(headerDeadFirst))
	wrong(headerDeadFirst, err)
	d.LastFailure, err = time.Parse(time.RFC3339Nano, get(headerDeadLast))
	wrong(headerDeadLast, err)
	return d, errors.Join(errs...)
}
