package convert

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"muster/ingest/internal/source"
	"muster/platform/bus"
	"muster/schemas/event"
)

// Headers with a message's location, as extensions of CloudEvents.
const (
	HeaderRun  = event.HeaderRun
	HeaderFile = event.HeaderFile
	HeaderLine = event.HeaderLine
)

// headers creates the headers of a chunk's messages: the CloudEvents attributes, the trace, and the
// location. A message ID is the line, or "line@offset" for a value that is not the first on its
// line, plus "/part" for a message of a part of it. Together with the source, which has run and
// file, it is the same for every retry.
type headers struct {
	ctx       context.Context // for the trace
	converter *Converter
	now       time.Time
	templates map[string][]kafka.Header
}

func newHeaders(ctx context.Context, c *Converter, now time.Time) *headers {
	return &headers{ctx: ctx, converter: c, now: now, templates: make(map[string][]kafka.Header, 4)}
}

// forMessage returns the headers of one message.
func (h *headers) forMessage(kind string, line source.Line, part int) []kafka.Header {
	template, ok := h.templates[kind]
	if !ok {
		template = h.template(kind)
		h.templates[kind] = template
	}
	number := strconv.AppendInt(nil, line.Number, 10)
	id := number
	if line.Inner {
		id = strconv.AppendInt(append(slices.Clip(id), '@'), line.Offset, 10)
	}
	if part > 0 {
		id = strconv.AppendInt(append(slices.Clip(id), '/'), int64(part), 10)
	}
	out := slices.Clone(template)
	out[0].Value, out[1].Value = id, number
	return out
}

// template returns the headers of a message type. The ones that differ between messages come first.
func (h *headers) template(kind string) []kafka.Header {
	first := []kafka.Header{
		{Key: bus.HeaderID}, {Key: HeaderLine},
		{Key: HeaderRun, Value: []byte(h.converter.Run)}, {Key: HeaderFile, Value: []byte(h.converter.File)},
	}
	rest := bus.SetTrace(h.ctx, bus.SetEvent(nil, bus.Event{
		ID: "-", Type: kind, Source: h.converter.source, Time: h.now, ContentType: "application/json",
	}))
	rest = slices.DeleteFunc(rest, func(h kafka.Header) bool { return h.Key == bus.HeaderID })
	if h.converter.Revision > 0 {
		rest = append(rest, kafka.Header{
			Key: event.HeaderRevision, Value: strconv.AppendUint(nil, uint64(h.converter.Revision), 10),
		})
	}
	return append(first, rest...)
}
