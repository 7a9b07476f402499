package clickhouse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/ch-go/proto"
	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Damage is a part of a table that the server cannot read from disk. Retrying does not help.
type Damage struct {
	Table string `json:"table"` // without the database
	Part  string `json:"part"`
	Cause string `json:"cause"` // the server's error name, or "broken-on-start": the part was detached
	// Path is the end of the part's path, directory and name: a recreated table may have a part of the same name.
	Path string `json:"-"`
}

// String describes the damage.
func (d Damage) String() string {
	return fmt.Sprintf("table %s is damaged on disk: part %s (%s)", d.Table, d.Part, d.Cause)
}

// damageCodes returns the error codes of reading corrupt or missing files. The server's message names the path.
func damageCodes() []Code {
	return []Code{
		proto.ErrChecksumDoesntMatch, proto.ErrCorruptedData, proto.ErrCannotDecompress, proto.ErrUnknownCodec,
		proto.ErrCannotReadAllData, proto.ErrAttemptToReadAfterEOF, proto.ErrIncorrectData, proto.ErrTooLargeStringSize,
		proto.ErrFileDoesntExist, proto.ErrNoFileInDataPart, proto.ErrBadSizeOfFileInDataPart,
		proto.ErrCannotReadFromFileDescriptor,
	}
}

// readingPart matches what the server appends to errors of reading a part: its path, and the table with its database.
var readingPart = regexp.MustCompile(`while reading from part (.+?)/? in table (\S+) \(`)

// DamageOf returns the damage that err reports. ok is false if err reports none.
func DamageOf(err error) (d Damage, ok bool) {
	var exception *ch.Exception
	if !errors.As(err, &exception) {
		return Damage{}, false
	}
	_, d, ok = damageIn(Code(exception.Code), exception.Message)
	return d, ok
}

// damageIn parses the damage, and its database, from a server error.
func damageIn(code Code, message string) (database string, d Damage, ok bool) {
	m := readingPart.FindStringSubmatch(message)
	if m == nil || !slices.Contains(damageCodes(), code) {
		return "", Damage{}, false
	}
	database, table, _ := strings.Cut(m[2], ".")
	unquote := func(name string) string { return strings.Trim(name, "`") }
	d = Damage{Table: unquote(table), Part: path.Base(m[1]), Cause: code.String(), Path: endOfPath(m[1])}
	return unquote(database), d, true
}

// endOfPath returns the last two elements of a part's path.
func endOfPath(part string) string {
	return path.Join(path.Base(path.Dir(path.Clean(part))), path.Base(part))
}

// ReadDamage returns the damaged parts that the server knows in a database: those it encountered since its start, only
// the latest per error code, and those it detached at startup. Damage in known is included as long as the table still
// has the part. Tables replaced by a replay are ignored.
func ReadDamage(ctx context.Context, conn driver.Conn, database string, known ...Damage) ([]Damage, error) {
	seen := slices.Clone(known)
	query := "SELECT code, last_error_message FROM system.errors WHERE code IN (" + codeList() + ")"
	if err := ReadRows(ctx, conn, query, func(rows driver.Rows) error {
		var code int32
		var message string
		if err := rows.Scan(&code, &message); err != nil {
			return err
		}
		if in, d, ok := damageIn(Code(code), message); ok && in == database {
			seen = append(seen, d)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read server errors: %w", err)
	}
	active, err := readParts(ctx, conn,
		"SELECT table, name, '', path FROM system.parts WHERE active AND database = "+quoted(database))
	if err != nil {
		return nil, fmt.Errorf("read active parts: %w", err)
	}
	found, err := readParts(ctx, conn, "SELECT table, name, assumeNotNull(reason), path FROM system.detached_parts "+
		"WHERE database = "+quoted(database)+" AND startsWith(assumeNotNull(reason), 'broken') ORDER BY table, name")
	if err != nil {
		return nil, fmt.Errorf("read detached parts: %w", err)
	}
	for _, d := range seen {
		same := func(other Damage) bool { return other.Table == d.Table && other.Path == d.Path }
		if slices.ContainsFunc(active, same) && !slices.ContainsFunc(found, same) {
			found = append(found, d)
		}
	}
	found = slices.DeleteFunc(found, func(d Damage) bool { return strings.Contains(d.Table, replacedMark) })
	slices.SortFunc(found, func(a, b Damage) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Part, b.Part))
	})
	return found, nil
}

// CheckTables verifies the checksums of the parts of those tables of a database that take up at most maxBytes each. It
// returns the parts that do not match.
func CheckTables(ctx context.Context, conn driver.Conn, database string, maxBytes int64) (found []Damage, err error) {
	small, err := readParts(ctx, conn,
		"SELECT table, name, '', path FROM system.parts WHERE active AND database = "+quoted(database)+
			" AND table IN (SELECT table FROM system.parts WHERE active AND database = "+quoted(database)+
			" GROUP BY table HAVING sum(bytes_on_disk) <= "+strconv.FormatInt(maxBytes, 10)+") ORDER BY table, name")
	if err != nil {
		return nil, fmt.Errorf("read active parts: %w", err)
	}
	checked := ""
	for _, part := range small {
		if part.Table == checked || strings.Contains(part.Table, replacedMark) {
			continue
		}
		checked = part.Table
		query := "CHECK TABLE `" + database + "`.`" + part.Table +
			"` SETTINGS check_query_single_value_result = 0, max_threads = 1"
		if err := ReadRows(ctx, conn, query, func(rows driver.Rows) error {
			var name, message string
			var passed uint8
			if err := rows.Scan(&name, &passed, &message); err != nil || passed == 1 {
				return err
			}
			i := slices.IndexFunc(small, func(d Damage) bool { return d.Table == checked && d.Part == name })
			if i >= 0 {
				found = append(found, Damage{
					Table: checked, Part: name, Cause: proto.ErrChecksumDoesntMatch.String(), Path: small[i].Path,
				})
			}
			return nil
		}); err != nil {
			return found, fmt.Errorf("check table %s: %w", checked, err)
		}
	}
	return found, nil
}

func readParts(ctx context.Context, conn driver.Conn, query string) (parts []Damage, err error) {
	err = ReadRows(ctx, conn, query, func(rows driver.Rows) error {
		var d Damage
		if err := rows.Scan(&d.Table, &d.Part, &d.Cause, &d.Path); err != nil {
			return err
		}
		d.Path = endOfPath(d.Path)
		parts = append(parts, d)
		return nil
	})
	return parts, err
}

// quoted returns text as an SQL string literal.
func quoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}

// replacedMark occurs in the names of tables that a replay has replaced.
const replacedMark = "__old_"

func codeList() string {
	var list []string
	for _, code := range damageCodes() {
		list = append(list, strconv.Itoa(int(code)))
	}
	return strings.Join(list, ", ")
}
