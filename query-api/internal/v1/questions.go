package v1

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"muster/query-api/internal/explore"
	"muster/schemas/event"
)

// Analyze runs a statement as the analysts' read-only user, and writes its result to out in a ClickHouse format.
type Analyze func(ctx context.Context, statement, format string, out io.Writer) error

const (
	questionsPath = explore.Path + "/questions"
	// questionTimeout is longer than a statement of analysts may take.
	questionTimeout = 75 * time.Second
	// maxQuestionRows is the maximum number of rows for the page; downloads have all.
	maxQuestionRows = 1000
)

// questionFormat is a format of an answer to a question.
type questionFormat struct{ clickhouse, media string }

func questionFormats() map[string]questionFormat {
	return map[string]questionFormat{
		"json":    {"JSONCompact", "application/json"},
		"csv":     {"CSVWithNames", "text/csv; charset=utf-8"},
		"parquet": {"Parquet", "application/vnd.apache.parquet"},
	}
}

// serveQuestions serves the saved questions of analysts and their answers, and passes other paths to next. The list
// needs no key; an answer needs one with the scope analyze, as it is about all data.
func (s *Server) serveQuestions(next http.Handler) http.Handler {
	listed := &operation{
		id: "getQuestions", method: http.MethodGet, path: questionsPath, invalid: http.StatusBadRequest,
	}
	answered := &operation{
		id: "answerQuestion", method: http.MethodGet, path: questionsPath + "/{file}", scope: event.ScopeAnalyze,
		invalid: http.StatusBadRequest, unavailable: http.StatusServiceUnavailable,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file, isAnswer := strings.CutPrefix(r.URL.Path, questionsPath+"/")
		x := exchangeOf(r.Context())
		switch {
		case r.URL.Path != questionsPath && !isAnswer:
			next.ServeHTTP(w, r)
		case !isRead(r):
			x.fail(w, useGET())
		case isAnswer:
			x.operation = answered
			if err := s.answerQuestion(w, r, answered, file); err != nil {
				x.fail(w, problemOf(answered, err))
			}
		default:
			x.operation = listed
			if _, err := listed.check(r, nil); err != nil {
				x.fail(w, problemOf(listed, err))
				return
			}
			body, err := encoded(struct {
				Questions []explore.Question `json:"questions"`
			}{append([]explore.Question{}, s.questions...)})
			if err != nil {
				x.fail(w, problemOf(listed, err))
				return
			}
			_ = body.write(w)
		}
	})
}

// answerQuestion runs the statement of a question. It returns an error before it has written anything.
func (s *Server) answerQuestion(w http.ResponseWriter, r *http.Request, op *operation, file string) error {
	if !s.cfg.Uncounted {
		if err := s.authorize(w, r, op, exchangeOf(r.Context()), nil); err != nil {
			return err
		}
	}
	if _, err := op.check(r, nil); err != nil {
		return err
	}
	number, extension, _ := strings.Cut(file, ".")
	n, err := strconv.Atoi(number)
	format, known := questionFormats()[extension]
	if err != nil || !known || n < 1 || n > len(s.questions) || s.analyze == nil {
		return &problem{
			status: http.StatusNotFound,
			detail: "no such question, or format other than csv, json and parquet: " + questionsPath +
				" lists the questions",
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), questionTimeout)
	defer cancel()
	extendDeadlines(w, questionTimeout)
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	begin := func() {
		header.Set("Content-Type", format.media)
		if extension != "json" {
			header.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="question-%d.%s"`, n, extension))
		}
	}
	if r.Method == http.MethodHead {
		begin()
		return nil
	}
	statement := s.questions[n-1].Statement
	if extension == "json" {
		var body bytes.Buffer
		statement = fmt.Sprintf("SELECT * FROM\n(\n%s\n)\nLIMIT %d", statement, maxQuestionRows)
		if err := s.analyze(ctx, statement, format.clickhouse, &body); err != nil {
			return questionError(err)
		}
		return answer(body.Bytes()).write(w)
	}
	out := &firstByte{to: w, begin: begin}
	if err := s.analyze(ctx, statement, format.clickhouse, out); err != nil {
		if out.begun {
			_ = exchangeOf(r.Context()).end(ctx)
			panic(http.ErrAbortHandler) // a truncated file must not look complete
		}
		return questionError(err)
	}
	return nil
}

func questionError(err error) error {
	return &problem{
		status: http.StatusServiceUnavailable, retryAfter: retryAfter, cause: err,
		detail: "the question was not answered: the limits of analysts were reached, or the data store is not " +
			"available; call again later",
	}
}

// firstByte is a writer that calls begin before its first byte.
type firstByte struct {
	to    io.Writer
	begin func()
	begun bool
}

func (f *firstByte) Write(b []byte) (int, error) {
	if !f.begun {
		f.begun = true
		f.begin()
	}
	return f.to.Write(b)
}
