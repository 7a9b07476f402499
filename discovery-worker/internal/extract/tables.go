package extract

import (
	"encoding/csv"
	"regexp"
	"strings"

	"muster/discovery-worker/internal/extract/view"
)

var (
	// tableRule matches a horizontal rule of a table.
	tableRule = regexp.MustCompile(`^[\s|+:=─━│┼-]{3,}$`)
	columnGap = regexp.MustCompile(`\t+|\s{2,}`)
	pipe      = regexp.MustCompile(`\s*[|│]\s*`)
)

// readTables reads tables: a header and the first row below it, which is the person, or rows with a
// label and a value.
func (d *document) readTables() {
	for i := 0; i < len(d.lines); i++ {
		if d.used[i] || len(d.lines[i].Text()) > 4000 {
			continue
		}
		header, delimiter := d.tableHeader(d.lines[i])
		if header == nil {
			d.readLabelRow(i)
			continue
		}
		row := i + 1
		for row < len(d.lines) &&
			(tableRule.MatchString(d.lines[row].Text()) || d.lines[row].Start == d.lines[row].End) {
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
			if kind := d.e.words.Kind(label.Text()); kind != "" && kind != "bio" {
				d.e.readValue(d.f, kind, cells[n], &d.labeledJob, labeled)
			}
		}
		for row++; row < len(d.lines) && len(cellsOf(d.lines[row], delimiter)) == len(header); row++ {
			d.used[row] = true // other people
		}
		i = row
	}
}

// tableHeader returns the labels of a header line and their delimiter.
func (d *document) tableHeader(line view.Part) (labels []view.Part, delimiter rune) {
	for _, c := range ",;\t|" {
		if strings.Count(line.Text(), string(c)) < 1 {
			continue
		}
		cells := cellsOf(line, c)
		known, name := 0, false
		for _, cell := range cells {
			kind := ""
			if len(cell.Text()) <= 40 {
				kind = d.e.words.Kind(cell.Text())
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

// readLabelRow reads a row with a label and a value.
func (d *document) readLabelRow(i int) {
	line := d.lines[i]
	var cells []view.Part
	if t := line.Text(); strings.HasPrefix(t, "|") || strings.HasPrefix(t, "│") {
		cells = cellsOf(line, '|')
	} else if !strings.Contains(t, ":") {
		cells = line.Split(columnGap)
	}
	if len(cells) != 2 || cells[1].Start == cells[1].End || len(cells[0].Text()) > 40 {
		return
	}
	if _, _, dated := d.e.dates.FindOne(cells[0].Text()); dated {
		return // an entry of a list of jobs
	}
	if kind := d.e.words.Kind(cells[0].Text()); kind != "" && kind != "bio" && d.e.words.Kind(cells[1].Text()) == "" {
		d.used[i] = true
		d.e.readValue(d.f, kind, cells[1], &d.labeledJob, labeled)
	}
}

// cellsOf splits a row at a delimiter, with the quotes of RFC 4180.
func cellsOf(line view.Part, delimiter rune) []view.Part {
	if delimiter == '|' {
		return line.Trim("|│").Split(pipe)
	}
	t := line.Text()
	r := csv.NewReader(strings.NewReader(t))
	r.Comma, r.LazyQuotes, r.FieldsPerRecord = delimiter, true, -1
	fields, err := r.Read()
	if err != nil {
		return nil
	}
	cells := make([]view.Part, len(fields))
	for i, field := range fields {
		_, column := r.FieldPos(i)
		from := column - 1
		if strings.HasPrefix(t[min(from, len(t)):], `"`) {
			from++
		}
		to := min(from+len(field), len(t))
		cells[i] = line.Sub(min(from, to), to).Trim("")
	}
	return cells
}
