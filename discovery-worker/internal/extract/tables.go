package extract

import (
	"encoding/csv"
	"regexp"
	"strings"
)

var (
	// ruler is a line of a table that only looks like one.
	ruler = regexp.MustCompile(`^[\s|+:=─━│┼-]{3,}$`)
	gap   = regexp.MustCompile(`\t+|\s{2,}`)
	pipe  = regexp.MustCompile(`\s*[|│]\s*`)
)

// tables reads lines that are rows: of a header and a row below it, or of a label
// and a value each. What it reads is the first person of a table: a row is one.
func (d *document) tables() {
	for i := 0; i < len(d.lines); i++ {
		if d.used[i] || len(d.lines[i].text()) > 4000 {
			continue
		}
		header, delimiter := d.header(d.lines[i])
		if header == nil {
			d.pair(i)
			continue
		}
		row := i + 1
		for row < len(d.lines) && (ruler.MatchString(d.lines[row].text()) || d.lines[row].start == d.lines[row].end) {
			row++
		}
		if row == len(d.lines) {
			return
		}
		cells := cellsOf(d.lines[row], delimiter)
		if len(cells) != len(header) {
			continue
		}
		d.used[i], d.used[row] = true, true
		for n, label := range header {
			if kind := d.e.words.kind(label.text()); kind != "" && kind != "bio" {
				d.e.value(d.f, kind, cells[n], &d.labelled, labelled)
			}
		}
		for row++; row < len(d.lines) && len(cellsOf(d.lines[row], delimiter)) == len(header); row++ {
			d.used[row] = true // others
		}
		i = row
	}
}

// header is the labels of a line that heads a table and what separates them.
func (d *document) header(line part) (labels []part, delimiter rune) {
	for _, c := range ",;\t|" {
		if strings.Count(line.text(), string(c)) < 1 {
			continue
		}
		cells := cellsOf(line, c)
		known, name := 0, false
		for _, cell := range cells {
			kind := ""
			if len(cell.text()) <= 40 {
				kind = d.e.words.kind(cell.text())
			}
			if kind != "" {
				known++
			}
			name = name || kind == "name" || kind == "person"
		}
		if len(cells) >= 3 && (known >= 2 && known*2 >= len(cells) || name && c == '\t') {
			return cells, c
		}
	}
	return nil, 0
}

// pair reads a row of a label and a value.
func (d *document) pair(i int) {
	line := d.lines[i]
	var cells []part
	if t := line.text(); strings.HasPrefix(t, "|") || strings.HasPrefix(t, "│") {
		cells = cellsOf(line, '|')
	} else if !strings.Contains(t, ":") {
		cells = line.split(gap)
	}
	if len(cells) != 2 || cells[1].start == cells[1].end || len(cells[0].text()) > 40 {
		return
	}
	if _, _, dated := d.e.dates.findOne(cells[0].text()); dated {
		return // an entry of a list of jobs
	}
	if kind := d.e.words.kind(cells[0].text()); kind != "" && kind != "bio" && d.e.words.kind(cells[1].text()) == "" {
		d.used[i] = true
		d.e.value(d.f, kind, cells[1], &d.labelled, labelled)
	}
}

// cellsOf cuts a row at a separator; quotes are those of RFC 4180.
func cellsOf(line part, delimiter rune) []part {
	if delimiter == '|' {
		return line.trim("|│").split(pipe)
	}
	t := line.text()
	r := csv.NewReader(strings.NewReader(t))
	r.Comma, r.LazyQuotes, r.FieldsPerRecord = delimiter, true, -1
	fields, err := r.Read()
	if err != nil {
		return nil
	}
	cells := make([]part, len(fields))
	for i, field := range fields {
		_, column := r.FieldPos(i)
		from := column - 1
		if strings.HasPrefix(t[min(from, len(t)):], `"`) {
			from++
		}
		to := min(from+len(field), len(t))
		cells[i] = line.sub(min(from, to), to).trim("")
	}
	return cells
}
