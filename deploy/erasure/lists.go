package erasure

import (
	"archive/zip"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"muster/schemas/suppress"
)

// List is a downloaded file.
type List struct {
	// Name is the name of the file, and of its response.
	Name string
	// Kind is one of suppress.DropLists, or Removed.
	Kind string
	Rows []ListRow
	// Bad are the invalid rows; they get no response.
	Bad []BadRow
}

// Removed is the kind of the file with withdrawn rows.
const Removed = "Removed"

// ListRow is a work item of a list.
type ListRow struct {
	ID   string
	Type suppress.Type
	Sum  [sha256.Size]byte
	Line int
}

// BadRow is an invalid row.
type BadRow struct {
	Line   int
	Reason string
}

const (
	// maxListSize is the maximum size of a file in bytes, maxListRows the maximum number of rows of an import.
	maxListSize = 4 << 30
	maxListRows = 50_000_000
	maxBadRows  = 1000
)

// listName matches names of files: date, broker, list and, for parts, a suffix.
var (
	listName = regexp.MustCompile(
		`^[0-9]{8}_[0-9]{4}_(NDZ|Email|Phone|MAID|NameVIN|CTVID|Removed)(_[A-Za-z0-9]{1,10})?\.csv$`)
	rowID = regexp.MustCompile(`^[A-Za-z0-9]{12}$`)
)

// ReadLists reads downloads: ZIP files, or the CSV files in them.
func ReadLists(paths []string) ([]List, error) {
	var lists []List
	seen := make(map[string]bool)
	rows := 0
	add := func(name string, r io.Reader) error {
		name = filepath.Base(name)
		match := listName.FindStringSubmatch(name)
		if match == nil {
			return fmt.Errorf("%s: invalid file name: want <YYYYMMDD>_<broker>_<%s or %s>.csv", name,
				strings.Join(suppress.DropLists(), "|"), Removed)
		}
		if seen[name] {
			return fmt.Errorf("%s: duplicate list", name)
		}
		seen[name] = true
		l, err := readList(name, match[1], io.LimitReader(r, maxListSize+1))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if rows += len(l.Rows); rows > maxListRows {
			return fmt.Errorf("%s: too large: more than %d rows in total", name, maxListRows)
		}
		lists = append(lists, l)
		return nil
	}
	for _, path := range paths {
		if err := openLists(path, add); err != nil {
			return nil, fmt.Errorf("read deletion lists: %w", err)
		}
	}
	if len(lists) == 0 {
		return nil, errors.New("read deletion lists: no list found")
	}
	return lists, nil
}

// openLists calls add for each list in a file.
func openLists(path string, add func(string, io.Reader) error) (err error) {
	if !strings.EqualFold(filepath.Ext(path), ".zip") {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(add(path, f), f.Close())
	}
	archive, err := zip.OpenReader(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	for _, entry := range archive.File {
		if entry.FileInfo().IsDir() {
			continue
		}
		f, err := entry.Open()
		if err != nil {
			return fmt.Errorf("%s: %s: %w", path, entry.Name, err)
		}
		if err := errors.Join(add(entry.Name, f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func readList(name, kind string, r io.Reader) (List, error) {
	l := List{Name: name, Kind: kind}
	want := []string{"ID", "Hash"}
	if kind == Removed {
		want = append(want, "ListType")
	}
	buffered := bufio.NewReaderSize(r, 1<<16)
	if mark, err := buffered.Peek(3); err == nil && bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		if _, err := buffered.Discard(3); err != nil {
			return l, err
		}
	}
	rows := csv.NewReader(buffered)
	rows.FieldsPerRecord, rows.ReuseRecord = -1, true
	head, err := rows.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return l, err
	}
	if !strings.EqualFold(strings.Join(head, ","), strings.Join(want, ",")) {
		return l, fmt.Errorf("line 1 must be %s", strings.Join(want, ","))
	}
	for {
		fields, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return l, nil
		}
		bad, ok := errors.AsType[*csv.ParseError](err)
		if err != nil && !ok {
			return l, err
		}
		var row ListRow
		var reason string
		switch {
		case bad != nil:
			row.Line, reason = bad.Line, bad.Err.Error()
		default:
			row.Line, _ = rows.FieldPos(0)
			if rows.InputOffset() > maxListSize {
				return l, fmt.Errorf("too large (max %d bytes)", int64(maxListSize))
			}
			reason = row.read(kind, fields, len(want))
		}
		if reason == "" {
			l.Rows = append(l.Rows, row)
			continue
		}
		if len(l.Bad) == maxBadRows {
			return l,
				fmt.Errorf("more than %d rows are invalid, the first at line %d: %s", maxBadRows, l.Bad[0].Line,
					l.Bad[0].Reason)
		}
		l.Bad = append(l.Bad, BadRow{row.Line, reason})
	}
}

// read parses a row. It returns the reason if the row is invalid, else "".
func (r *ListRow) read(kind string, fields []string, want int) string {
	if len(fields) != want {
		return fmt.Sprintf("has %d fields, want %d", len(fields), want)
	}
	if !rowID.MatchString(fields[0]) {
		return "ID is not 12 letters and digits"
	}
	if len(fields[1]) != base64.StdEncoding.EncodedLen(sha256.Size) {
		return "Hash is not a SHA-256 in base64"
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(fields[1])
	if err != nil || len(raw) != sha256.Size {
		return "Hash is not a SHA-256 in base64"
	}
	if kind == Removed {
		kind = fields[2]
	}
	t, ok := suppress.DropType(kind)
	if !ok {
		return "invalid ListType: want " + strings.Join(suppress.DropLists(), ", ")
	}
	r.ID, r.Type, r.Sum = strings.Clone(fields[0]), t, [sha256.Size]byte(raw)
	return ""
}
