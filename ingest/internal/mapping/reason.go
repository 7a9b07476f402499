package mapping

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

var (
	// operationPattern matches the start of a gojq error, up to the values that it quotes, and the type of
	// the first of them if it is not followed by its value.
	operationPattern = regexp.MustCompile(
		`^(?:[^ :("{\[]| [^-0-9:("{\[])*(?:: (?:null|boolean|number|string|array|object)\b)?`,
	)
	// appliedPattern matches an error that quotes the arguments of a function before it states the type of its input.
	appliedPattern = regexp.MustCompile(
		`^(\w+)\((?s:.*)\)( cannot be applied to(?:: (?:null|boolean|number|string|array|object)\b)?)`,
	)
	// quotingPattern matches such an error within another error message.
	quotingPattern = regexp.MustCompile(
		`(?:boolean|number|string|array|object) \(|cannot be applied to|` +
			`(?:index|result) too large: |format not defined: `,
	)
	// namePattern matches what may be shown as a name: it is likely the program's and not a value.
	namePattern = regexp.MustCompile(`^[A-Za-z_-]{0,40}$`)
)

// explain returns why a program failed, without the values that it failed on: reasons are listed
// and logged in places where records are not. Messages of error and halt_error are kept, as they
// are the program's own.
func explain(err error) string {
	thrown, ok := errors.AsType[gojq.ValueError](err)
	if !ok {
		return stripValues(err.Error())
	}
	text, ok := thrown.Value().(string)
	switch {
	case !ok:
		text = gojq.TypeOf(thrown.Value())
	case quotingPattern.MatchString(text): // caught and thrown again
		text = stripValues(text)
	}
	return "error: " + text
}

func stripValues(text string) string {
	if m := appliedPattern.FindStringSubmatch(text); m != nil {
		text = m[1] + m[2]
	} else {
		text = strings.TrimSpace(operationPattern.FindString(text))
	}
	if strings.HasSuffix(text, "applied to") {
		text += " its input"
	}
	return text
}

// describePanic describes a panic in the interpreter.
func describePanic(r any) string {
	if err, ok := r.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("with a %T", r) // its message may contain data of the record
}

// quoteName quotes a name in a program's output, if it is safe to show.
func quoteName(s string) string {
	if !namePattern.MatchString(s) {
		return "(not shown)"
	}
	return strconv.Quote(s)
}
