package v1

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"muster/query-api/internal/bulk"
	"muster/schemas/event"
)

const (
	// maxUploads is the number of uploads that are received or stored at a time, maxDownloads that of results.
	maxUploads   = 8
	maxDownloads = 16
	// storeTimeout is how long storing an upload may take.
	storeTimeout = 2 * time.Minute
	// maxRefusedUpload is how much of an upload is read that is refused before it is received.
	maxRefusedUpload = 16 << 20
)

// upload is a received body of rows, in a file without a name: it is gone when the process ends.
type upload struct {
	file    *os.File
	size    int64
	format  bulk.Format
	release func()
}

// rows returns a reader of the whole upload.
func (u *upload) rows() io.Reader { return io.NewSectionReader(u.file, 0, u.size) }

func (u *upload) close() {
	if u == nil {
		return
	}
	_ = u.file.Close() // it was only read
	u.release()
}

// receiveUpload runs the checks of a call with an upload. What needs no upload is checked before it is received. It
// returns what an Idempotency-Key stands for: the hash of the upload, its format and the parameters.
func (s *Server) receiveUpload(w http.ResponseWriter, r *http.Request, op *operation, x *exchange) ([]byte, error) {
	tooLarge := &problem{
		status: http.StatusRequestEntityTooLarge,
		detail: fmt.Sprintf("the upload is larger than %d bytes: split it into several jobs", event.MaxBulkBytes),
	}
	format, err := uploadFormat(r)
	if r.ContentLength > event.MaxBulkBytes {
		err = tooLarge
	}
	if err == nil {
		err = s.checkKey(r, op)
	}
	if err == nil && !s.cfg.Uncounted {
		err = s.authorize(w, r, op, x, nil)
	}
	if err == nil {
		_, err = op.check(r, nil)
	}
	if err != nil {
		// A client that is cut off while it writes sees a broken connection instead of the response.
		if r.Header.Get("Expect") == "" {
			_, _ = io.CopyN(io.Discard, r.Body, maxRefusedUpload)
		}
		return nil, err
	}
	select {
	case s.uploads <- struct{}{}:
	default:
		return nil, &problem{
			status: http.StatusServiceUnavailable, retryAfter: retryAfter, cause: errors.New("too many uploads"),
			detail: fmt.Sprintf("%d uploads are being received: call again in %d seconds", maxUploads, retryAfter),
		}
	}
	x.upload = &upload{format: format, release: func() { <-s.uploads }}
	sum := sha256.New()
	if err := s.spool(w, r, x.upload, sum); err != nil {
		if errors.As(err, new(*http.MaxBytesError)) {
			for _, name := range []string{rateLimitHeader, rateRemainingHeader, rateResetHeader, "RateLimit-Policy",
				"RateLimit"} {
				delete(w.Header(), name) // as if the length had been announced
			}
			_, _ = io.CopyN(io.Discard, r.Body, maxRefusedUpload)
			return nil, tooLarge
		}
		return nil, err
	}
	return fmt.Appendf(nil, "%s %d %s", hex.EncodeToString(sum.Sum(nil)), format, r.URL.Query().Encode()), nil
}

// uploadFormat returns the format that the headers declare.
func uploadFormat(r *http.Request) (bulk.Format, error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset, given := params["charset"]
	switch {
	case contentEncoding(r) != "":
		return 0, &problem{
			status: http.StatusUnsupportedMediaType,
			detail: "the upload is sent with Content-Encoding " + quote(contentEncoding(r)) +
				": send it uncompressed, without Content-Encoding",
		}
	case err == nil && (!given || strings.EqualFold(charset, "utf-8")) && kind == "application/x-ndjson":
		return bulk.NDJSON, nil
	case err == nil && (!given || strings.EqualFold(charset, "utf-8")) && kind == "text/csv":
		return bulk.CSV, nil
	}
	return 0, &problem{
		status: http.StatusUnsupportedMediaType,
		detail: `the upload must be NDJSON or CSV in UTF-8: send the header "Content-Type: application/x-ndjson" or ` +
			`"Content-Type: text/csv"`,
	}
}

// spool copies the body to a file and into sum.
func (s *Server) spool(w http.ResponseWriter, r *http.Request, to *upload, sum hash.Hash) error {
	failed := func(err error) error { return fmt.Errorf("%w: receive upload: %w", bulk.ErrUnavailable, err) }
	if err := os.MkdirAll(s.cfg.UploadDir, 0o700); err != nil {
		return failed(err)
	}
	file, err := os.CreateTemp(s.cfg.UploadDir, "upload-*")
	if err != nil {
		return failed(err)
	}
	to.file = file
	if err := os.Remove(file.Name()); err != nil {
		return failed(err)
	}
	body := &pacedReader{
		from: http.MaxBytesReader(w, r.Body, event.MaxBulkBytes), control: http.NewResponseController(w),
		began: time.Now(), grace: s.cfg.ReadGrace, rate: s.cfg.MinReadRate,
	}
	n, err := io.Copy(io.MultiWriter(file, sum), body)
	to.size = n
	switch {
	case err == nil:
		return nil
	case body.failed == nil:
		return failed(err)
	case errors.As(err, new(*http.MaxBytesError)):
		return err
	}
	return invalidf("the upload could not be read to its end")
}

// pacedReader reads a body, and fails if it arrives slower than a rate.
type pacedReader struct {
	from    io.Reader
	control *http.ResponseController
	began   time.Time
	grace   time.Duration
	rate    int64 // bytes per second
	read    int64
	failed  error
}

func (p *pacedReader) Read(b []byte) (int, error) {
	// Writers in tests may not support deadlines.
	_ = p.control.SetReadDeadline(p.began.Add(p.grace + time.Duration(p.read)*time.Second/time.Duration(p.rate)))
	n, err := p.from.Read(b)
	p.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		p.failed = err
	}
	return n, err
}
