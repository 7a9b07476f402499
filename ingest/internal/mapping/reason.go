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
	// operation is the beginning of an error of gojq's, up to the values that it quotes,
	// and the type of the first of them where that stands alone.
	operation = regexp.MustCompile(`^(?:[^ :("{\[]| [^-0-9:("{\[])*(?:: (?:null|boolean|number|string|array|object)\b)?`)
	// applied is one that quotes the arguments of a function before it says of what type
	// its input was.
	applied = regexp.MustCompile(`^(\w+)\((?s:.*)\)( cannot be applied to(?:: (?:null|boolean|number|string|array|object)\b)?)`)
	// quoting tells such an error in the text of another.
	quoting = regexp.MustCompile(`(?:boolean|number|string|array|object) \(|cannot be applied to|(?:index|result) too large: |format not defined: `)
	// name is what is taken for a name of the program's and not for a value.
	name = regexp.MustCompile(`^[A-Za-z_-]{0,40}$`)
)

// explain says why a program failed, without the values that it failed on: reasons are
// listed and logged where records are not. The text of error and halt_error is the
// program's own.
func explain(failed error) string {
	thrown, ok := errors.AsType[gojq.ValueError](failed)
	if !ok {
		return withoutValues(failed.Error())
	}
	text, ok := thrown.Value().(string)
	switch {
	case !ok:
		text = gojq.TypeOf(thrown.Value())
	case quoting.MatchString(text): // caught and thrown again
		text = withoutValues(text)
	}
	return "error: " + text
}

func withoutValues(text string) string {
	if m := applied.FindStringSubmatch(text); m != nil {
		text = m[1] + m[2]
	} else {
		text = strings.TrimSpace(operation.FindString(text))
	}
	if strings.HasSuffix(text, "applied to") {
		text += " its input"
	}
	return text
}

// panicked says what an error in the interpreter was.
func panicked(r any) string {
	if err, ok := r.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("with a %T", r) // its text may be of the record
}

// shown quotes the name that a program gave something.
func shown(s string) string {
	if !name.MatchString(s) {
		return "(not shown)"
	}
	return strconv.Quote(s)
}
