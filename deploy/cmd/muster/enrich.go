package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"muster/deploy/internal/instance"
	"muster/platform/atomicfile"
	"muster/platform/suggest"
	"muster/query-api/client"
	"muster/schemas/event"
)

// enrichment is one run of `muster enrich`.
type enrichment struct {
	api       *client.Client
	bar       *bar
	logger    *slog.Logger
	operation string
	columns   []string // --column
	fields    []string
	again     bool
	// maxCredits is the maximum cost of a job, 0 for none.
	maxCredits int64

	invalid int // rows without an answer
}

// identifierFields returns the fields that a column can be, by operation.
func identifierFields(operation string) []string {
	switch event.BulkOperation(operation) {
	case event.BulkPersonEnrich:
		return []string{"codehost", "network_username", "email"}
	case event.BulkCompanyEnrich:
		return []string{"network_slug", "network_id", "network_url", "company_id", "website", "domain", "email", "name",
			"location"}
	case event.BulkDiscover:
		return []string{"network", "codehost", "microblog", "url"}
	}
	return nil
}

// defaultFields returns the columns that are added without --fields.
func defaultFields(operation string) []string {
	switch event.BulkOperation(operation) {
	case event.BulkCompanyEnrich:
		return []string{"company_id", "network_slug", "profile.name", "profile.website", "profile.industry",
			"profile.company_size"}
	case event.BulkDiscover:
		return []string{"network.link", "network.confidence", "codehost.link", "codehost.confidence", "microblog.link",
			"microblog.confidence"}
	case event.BulkPersonEnrich:
	}
	return []string{"network.profile.full_name", "network.profile.headline", "network.network_username",
		"codehost.full_name", "codehost.codehost_username", "codehost.location"}
}

func (c *command) enrichCommand() *cobra.Command {
	e := enrichment{}
	var output, address string
	cmd := &cobra.Command{
		Use:   "enrich FILE.csv --column NAME[=FIELD]...",
		Short: "Enrich the rows of a CSV file",
		Long: `Sends the rows of a CSV file with a header to the API as bulk jobs (POST /v1/bulk), shows their progress,
and writes the same file with more columns. FILE can be -, standard input.

--column names the column that identifies a row, and the field of the API that it is:
  person_enrich   codehost, network_username, email
  company_enrich  network_slug, network_id, network_url, company_id, website, domain, email, name, location
  discover        network, codehost, microblog, url

The result has the columns of the file, then "detail" (why a row is invalid), "miss_reason" (why nothing matches it)
and --fields. A row without a match costs nothing.

The API is that of the running instance, or MUSTER_BASE_URL (--url) with the key MUSTER_API_KEY. A stopped command can
be repeated for 24 hours: the same file with the same options continues the same job, and is not charged again (--again
starts a new one). A file of more than 100,000 rows becomes several jobs.

Exit status: 0; 1 some rows are invalid; 2 the file was not enriched.`,
		Example: `  muster enrich contacts.csv --column email --output enriched.csv
  muster enrich people.csv --column "GitHub user=codehost" --fields codehost.full_name,codehost.followers
  muster enrich companies.csv --operation company_enrich --column slug=network_slug`,
		GroupID: "data",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tel, err := c.telemetry(cmd.Context(), "muster enrich")
			if err != nil {
				return err
			}
			e.logger, e.bar = tel.Logger, newBar(c.std.err, tel.Logger)
			if e.api, err = c.apiClient(address); err != nil {
				return err
			}
			if len(e.fields) == 0 {
				e.fields = defaultFields(e.operation)
			}
			in, err := openInput(cmd, args[0])
			if err != nil {
				return err
			}
			defer in.Close()
			run := func(out io.Writer) error { return e.run(cmd.Context(), in, out) }
			if output != "" {
				err = atomicfile.Write(output, run)
			} else {
				err = run(cmd.OutOrStdout())
			}
			if err == nil && e.invalid > 0 {
				return partlyError{fmt.Errorf("%d rows are invalid: see the column detail", e.invalid)}
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&e.columns, "column", nil, "column that identifies a row, NAME or NAME=FIELD; may be repeated")
	flags.StringVar(&e.operation, "operation", string(event.BulkPersonEnrich),
		"operation: "+strings.Join(event.BulkOperations(), ", "))
	flags.StringSliceVar(&e.fields, "fields", nil, "fields to add as columns (default: the main ones)")
	flags.StringVar(&output, "output", "", "file to write (default: standard output)")
	flags.StringVar(&address, "url", "", "URL of the API (MUSTER_BASE_URL)")
	flags.Int64Var(&e.maxCredits, "max-credits", 0, "maximum cost of a job in credits (default: no limit)")
	flags.BoolVar(&e.again, "again", false, "start a new job, even if the same file was sent before")
	_ = cmd.MarkFlagRequired("column") // the flag exists
	return cmd
}

// openInput opens a file or standard input.
func openInput(cmd *cobra.Command, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open the file: %w", err)
	}
	return file, nil
}

// apiClient returns a client of the API: of the environment, else of the running instance.
func (c *command) apiClient(address string) (*client.Client, error) {
	key := strings.TrimSpace(c.getenv("MUSTER_API_KEY"))
	if address == "" {
		address = strings.TrimSpace(c.getenv("MUSTER_BASE_URL"))
	}
	if address == "" || key == "" {
		in, err := instance.Running(c.dataDir)
		if errors.Is(err, instance.ErrNotRunning) {
			err = fmt.Errorf("%w, set --data-dir to another directory, or set MUSTER_BASE_URL and MUSTER_API_KEY", err)
		}
		if err != nil {
			return nil, err
		}
		if address != "" && address != in.BaseURL {
			return nil, errors.New("MUSTER_API_KEY is empty: set it to an API key of the service at --url")
		}
		address = in.BaseURL
		if key == "" {
			key = in.APIKey
		}
	}
	return client.New(address, key, client.Options{UserAgent: "muster-enrich/" + version()})
}

// run enriches in and writes the result to out.
func (e *enrichment) run(ctx context.Context, in io.Reader, out io.Writer) error {
	reader := csv.NewReader(bufio.NewReader(skipMark(in)))
	reader.FieldsPerRecord = -1
	header, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return errors.New("the file is empty: it needs a header")
	}
	if err != nil {
		return fmt.Errorf("read the header: %w", err)
	}
	positions, names, err := e.identify(header)
	if err != nil {
		return err
	}
	writer := csv.NewWriter(out)
	if err := writer.Write(slices.Concat(header, []string{"detail", "miss_reason"}, e.fields)); err != nil {
		return err
	}
	for {
		part, err := readPart(reader, positions, names, e.operation)
		if err != nil {
			return err
		}
		if len(part.rows) == 0 {
			break
		}
		if err := e.enrichPart(ctx, part, len(header), writer); err != nil {
			return err
		}
	}
	writer.Flush()
	return writer.Error()
}

// skipMark skips a byte-order mark, as spreadsheets write.
func skipMark(in io.Reader) io.Reader {
	buffered := bufio.NewReader(in)
	if mark, err := buffered.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = buffered.Discard(len(mark)) // it was just read
	}
	return buffered
}

// identify returns the positions of the identifying columns and the fields that they are.
func (e *enrichment) identify(header []string) (positions []int, names []string, err error) {
	known := identifierFields(e.operation)
	if known == nil {
		return nil, nil, fmt.Errorf("--operation: unknown operation %q: %s", e.operation, suggest.Hint(e.operation,
			event.BulkOperations(), "known are "+strings.Join(event.BulkOperations(), ", ")))
	}
	for _, column := range e.columns {
		name, field := column, column
		if i := strings.LastIndexByte(column, '='); i >= 0 {
			name, field = column[:i], column[i+1:]
		}
		at := slices.Index(header, name)
		if at < 0 {
			return nil, nil, fmt.Errorf("--column: the file has no column %q: %s", name,
				suggest.Hint(name, header, "it has "+strings.Join(header, ", ")))
		}
		if !slices.Contains(known, field) {
			return nil, nil, fmt.Errorf("--column: %q is not a field of %s: give %s=FIELD with one of %s", field,
				e.operation, name, strings.Join(known, ", "))
		}
		if slices.Contains(names, field) {
			return nil, nil, fmt.Errorf("--column: %s is given twice", field)
		}
		positions, names = append(positions, at), append(names, field)
	}
	return positions, names, nil
}

// part is the rows of one job, and the upload made of them.
type part struct {
	rows   [][]string
	upload []byte
}

// readPart reads rows up to the limits of a job.
func readPart(reader *csv.Reader, positions []int, names []string, operation string) (part, error) {
	var p part
	var upload bytes.Buffer
	writer := csv.NewWriter(&upload)
	head, tail := names, []string(nil)
	if operation == string(event.BulkPersonEnrich) {
		head, tail = append(slices.Clip(names), "websets"), []string{"codehost;network"}
	}
	if err := writer.Write(head); err != nil {
		return p, err
	}
	const spare = 1 << 20 // for the last row
	for len(p.rows) < event.MaxBulkRows && upload.Len() < event.MaxBulkBytes-spare {
		row, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return p, fmt.Errorf("read the file: %w", err)
		}
		cells := make([]string, 0, len(head))
		for _, at := range positions {
			cell := ""
			if at < len(row) {
				cell = strings.TrimSpace(row[at])
			}
			cells = append(cells, cell)
		}
		if err := writer.Write(append(cells, tail...)); err != nil {
			return p, err
		}
		if writer.Flush(); writer.Error() != nil {
			return p, writer.Error()
		}
		p.rows = append(p.rows, row)
	}
	p.upload = upload.Bytes()
	return p, nil
}

// enrichPart runs a job and writes its rows with their results.
func (e *enrichment) enrichPart(ctx context.Context, p part, columns int, out *csv.Writer) error {
	options := client.BulkOptions{
		Operation: client.BulkOperation(e.operation), CSV: true, Fields: e.fields, MaxCredits: e.maxCredits,
	}
	var call []client.CallOption
	if !e.again {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %d %x", e.operation, e.fields, e.maxCredits, sha256.Sum256(p.upload)))
		call = append(call, client.IdempotencyKey("enrich-"+hex.EncodeToString(sum[:])))
	}
	e.bar.Begin("enriching", int64(len(p.rows)))
	accepted, err := e.api.SubmitBulk(ctx, p.upload, options, call...)
	if err != nil {
		e.bar.End()
		return fmt.Errorf("submit the job: %w", err)
	}
	id := accepted.Value.JobID
	job, err := e.api.WaitBulk(ctx, id, func(job *client.BulkJob) { e.bar.Set(int64(job.Done)) })
	if err == nil {
		e.bar.Set(int64(job.Value.Done))
	}
	e.bar.End()
	switch {
	case err != nil:
		return fmt.Errorf("%w; the job continues: repeat the command to get its results", err)
	case job.Value.Status == client.BulkJobStatusFailed:
		return fmt.Errorf("job %s has failed after %d of %d rows: %s", id, job.Value.Done, job.Value.Rows,
			job.Value.Detail)
	}
	e.logger.Info("enrich: job done", slog.String("job_id", id), slog.Int("rows", job.Value.Rows),
		slog.Int64("credits", job.Value.Credits))
	return e.join(ctx, id, p, columns, out)
}

// join writes rows with their results, which come in the same order.
func (e *enrichment) join(ctx context.Context, id string, p part, columns int, out *csv.Writer) error {
	pipe, fill := io.Pipe()
	defer pipe.Close()
	go func() { fill.CloseWithError(e.api.GetBulkResults(ctx, id, fill)) }()
	results := csv.NewReader(pipe)
	if _, err := results.Read(); err != nil { // the header
		return fmt.Errorf("read the results of job %s: %w", id, err)
	}
	for _, row := range p.rows {
		result, err := results.Read()
		if err != nil {
			return fmt.Errorf("read the results of job %s: %w", id, err)
		}
		if result[1] != "" {
			e.invalid++
		}
		for len(row) < columns {
			row = append(row, "")
		}
		if err := out.Write(slices.Concat(row, result[1:])); err != nil { // without the reference
			return err
		}
	}
	return nil
}
