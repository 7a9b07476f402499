package event

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Dead says why and where a message was given up. A dead letter, on the topic of
// [DeadTopic], is the message as it was, its key, value and headers, with the
// headers of Dead added: whoever resubmits it removes those and writes the rest to
// Topic.
type Dead struct {
	// Service and Handler gave up: "discovery-worker", "score".
	Service, Handler string
	// Topic, Partition and Offset are where the message was read.
	Topic     string
	Partition int
	Offset    int64
	// Code is a short name of the kind of failure, to filter by; CodeFailed when
	// nothing better is known. Reason is for people and holds no personal data.
	Code, Reason string
	// Attempts is how often the handler failed on it, at least 1, between
	// FirstFailure and LastFailure.
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

// HeaderDeadPrefix begins the names of the headers that a dead letter has beside
// those of the message.
const HeaderDeadPrefix = "muster_dead_"

// DeadTopicPrefix begins the names of the topics of dead letters.
const DeadTopicPrefix = "muster.dead."

// maxDeadReason bounds the reason, in bytes.
const maxDeadReason = 1 << 10

// Set gives the headers of a dead letter to set, which replaces those of the same
// name. It is the one function that writes them, whatever carries headers.
func (d Dead) Set(set func(name, value string)) {
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

// ParseDead reads what Set wrote. get returns "" for a header that is missing.
// The error names every header that is missing or wrong; what could be read is
// returned with it.
func ParseDead(get func(name string) string) (Dead, error) {
	d := Dead{
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
