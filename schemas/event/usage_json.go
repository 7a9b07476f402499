package event

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendJSON appends the event as JSON, identical to json.Marshal but without reflection: it runs for every
// call before the response. It returns an error if a string is not UTF-8 or a year does not have four digits.
func (u *Usage) AppendJSON(b []byte) ([]byte, error) {
	var failed error
	text := func(name, value string) {
		b = append(b, name...)
		var err error
		if b, err = jsontext.AppendQuote(b, value); err != nil && failed == nil {
			failed = err
		}
	}
	list := func(name string, values []string) {
		if len(values) == 0 {
			return
		}
		b = append(b, name...)
		for i, v := range values {
			if i == 0 {
				text("[", v)
			} else {
				text(",", v)
			}
		}
		b = append(b, ']')
	}
	number := func(name string, value int64) {
		b = strconv.AppendInt(append(b, name...), value, 10)
	}
	text(`{"request_id":`, u.RequestID)
	text(`,"organization_id":`, u.OrganizationID)
	text(`,"key_id":`, u.KeyID)
	b = append(b, `,"at":"`...)
	b, err := u.At.AppendText(b)
	if err != nil {
		return nil, fmt.Errorf("usage event %s: %w", u.RequestID, err)
	}
	text(`","period":`, u.Period)
	text(`,"method":`, u.Method)
	text(`,"endpoint":`, u.Endpoint)
	number(`,"status":`, int64(u.Status))
	text(`,"outcome":`, string(u.Outcome))
	if u.Plan != "" {
		text(`,"plan":`, u.Plan)
	}
	number(`,"requests":`, u.Requests)
	number(`,"credits":`, u.Credits)
	number(`,"duration_us":`, u.DurationMicros)
	list(`,"returned":`, u.Returned)
	list(`,"groups":`, u.Groups)
	if failed != nil {
		return nil, fmt.Errorf("usage event %s: %w", u.RequestID, failed)
	}
	return append(b, '}'), nil
}
