package view

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// texCommand matches a command at the beginning of a line, which identifies LaTeX.
var texCommand = regexp.MustCompile(`(?m)^\s*\\[A-Za-z]{2,30}\*?(?:\[[^\[\]\n]*\])*\{`)

// IsLaTeX reports whether a text is LaTeX.
func IsLaTeX(text string) bool { return strings.Contains(text, `\`) && texCommand.MatchString(text) }

// texDroppedWords are commands without content. Their arguments are dropped.
const texDroppedWords = `
		documentclass usepackage requirepackage loadclass geometry newcommand renewcommand providecommand
		newenvironment renewenvironment newlength definecolor colorlet color pagecolor moderncvstyle moderncvcolor
		moderncvtheme moderncvicons setlength addtolength setcounter hypersetup pagestyle thispagestyle pagenumbering
		vspace fontsize setmainfont setsansfont fontfamily fontdir input include includegraphics photo quote date
		label ref cite nocite bibliography bibliographystyle addbibresource titleformat titlespacing titlerule setlist
		fancyhf fancyhead fancyfoot lhead rhead chead lfoot rfoot cfoot rule hrule phantom vphantom hphantom
		graphicspath urlstyle extrainfo columnratio makecvfooter tikz gdef raisebox`

// Commands by their meaning in CVs.
var (
	texLabels = map[string]string{ //nolint:gochecknoglobals // a constant table
		"name": "name", "author": "name", "makeheading": "name", "firstname": "first name", "givenname": "first name",
		"fname": "first name", "lastname": "last name", "familyname": "last name", "surname": "last name",
		"lname": "last name", "title": "title", "position": "title",
		"jobtitle": "title", "profession": "title", "address": "address", "location": "location", "email": "email",
		"mail": "email", "emailaddress": "email", "phone": "phone", "telephone": "phone", "tel": "phone",
		"mobile": "phone", "phonenumber": "phone", "homepage": "website", "website": "website", "web": "website",
		"webpage": "website", "personalpage": "website", "github": "github", "githubpage": "github",
		"linkedin": "linkedin", "linkedinpage": "linkedin", "twitter": "twitter", "twitterpage": "twitter",
		"company": "company", "employer": "company", "city": "city", "country": "country",
	}
	texDropped    = wordSet(texDroppedWords) //nolint:gochecknoglobals // a constant set
	texSeparators = wordSet(                 //nolint:gochecknoglobals // a constant set
		"hfill quad qquad hspace hskip textbar textbullet cdotp cdot bullet vert mid textperiodcentered diamond sep " +
			"tab acvheadersep hfil dotfill hrulefill")
	texBreaks = wordSet( //nolint:gochecknoglobals // a constant set
		"par newline linebreak break smallskip medskip bigskip tabularnewline hline newpage clearpage maketitle " +
			"makecvtitle makecvheader")
	texSections = regexp.MustCompile(`^(?:(?:sub){0,2}section|chapter|part|paragraph|cv(?:sub)?section` +
		`|resheading|sectiontitle|rsection|ecvsection|headedsection|heading|roottitle|spacedhrule|runsubsection)$`)
	texEntries = regexp.MustCompile(`^(?:\w*cv\w*(?:entry|job|event|experience|position)` +
		`|(?:resume)?sub(?:sub)?heading|resume(?:sub)+heading\w*|resumequadheading\w*|dated(?:sub)?section` +
		`|datedline|rsubsection|entry|job|joblong|jobshort|experience|workentry|employment|degree|education` +
		`|educationentry)$`)
	texPairs = regexp.MustCompile(`^(?:\w*cv(?:double)?item|cvline|cvcomputer|cvitemwithcomment|cvlanguage` +
		`|cvskill|cvhonor|ecvlanguage|ecvmothertongue|cvtag)$`)
	texArticles = regexp.MustCompile(`\\documentclass(?:\[[^\]]*\])?\{(?:ext)?(?:article|report|book|letter` +
		`|minimal|scr\w+|memoir|paper|amsart)\}|\\author\s*\{`)
	texYear     = regexp.MustCompile(`(?:19|20)\d\d`)
	texOpenYear = regexp.MustCompile(`^[^{}]{0,30}(?:19|20)\d\d\s*[-–—]{1,3}\s*$`)
)

func wordSet(words string) map[string]bool {
	all := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		all[w] = true
	}
	return all
}

// texLetters are commands for letters.
var texLetters = map[string]string{ //nolint:gochecknoglobals // a constant table
	"o": "ø", "O": "Ø", "l": "ł", "L": "Ł", "ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "aa": "å", "AA": "Å",
	"i": "i", "j": "j", "textendash": "–", "textemdash": "—", "textasciitilde": "~", "textunderscore": "_",
	"LaTeX": "LaTeX", "TeX": "TeX", "dj": "đ", "DJ": "Đ", "textperiodcentered": "·",
	"textquotesingle": "'", "textquoteright": "'", "aposetrophe": "'", "ldots": "...", "dots": "...", "degree": "°",
	"textdegree": "°", "at": "@", "textat": "@", "space": " ", "enspace": " ", "enskip": " ", "thinspace": " ",
}

// texAccents are commands that add a mark to the next letter.
var texAccents = map[string]string{ //nolint:gochecknoglobals // a constant table
	"'": "\u0301", "`": "\u0300", "^": "\u0302", `"`: "\u0308", "~": "\u0303", "=": "\u0304", ".": "\u0307",
	"c": "\u0327", "v": "\u030c", "u": "\u0306", "H": "\u030b", "k": "\u0328", "r": "\u030a", "d": "\u0323",
	"b": "\u0331",
}

// maxTeXDepth limits nested groups.
const maxTeXDepth = 24

// texReader converts LaTeX to lines with a label and a value, a heading, a list entry, or text.
type texReader struct {
	src       string
	b         *builder
	closingBy map[int]int // offset of an opening brace or bracket to that of the closing one
	article   bool
	sections  int
	depth     int
	links     [][2]int
}

// addTeX adds the text of a LaTeX document.
func (b *builder) addTeX(text string) {
	t := &texReader{src: text, b: b, closingBy: matchGroups(text), article: texArticles.MatchString(text)}
	t.read(0, len(text), false)
	for _, l := range t.links {
		b.add("\n", l[0])
		for i := l[0]; i < l[1]; i++ {
			b.add(text[i:i+1], i)
		}
	}
}

// matchGroups pairs braces, and brackets within one line.
func matchGroups(text string) map[int]int {
	closing := map[int]int{}
	var open []int
	bracket := -1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '%':
			if n := strings.IndexByte(text[i:], '\n'); n >= 0 {
				i += n
			}
			bracket = -1
		case '{':
			open = append(open, i)
		case '}':
			if n := len(open); n > 0 {
				closing[open[n-1]] = i
				open = open[:n-1]
			}
		case '[':
			bracket = i
		case ']':
			if bracket >= 0 {
				closing[bracket] = i
			}
			bracket = -1
		case '\n':
			bracket = -1
		}
	}
	return closing
}

// read adds a range of the source. If inline is true, it becomes one line.
func (t *texReader) read(from, to int, inline bool) {
	if t.depth++; t.depth > maxTeXDepth {
		t.depth--
		return
	}
	defer func() { t.depth-- }()
	for i := from; i < to; {
		switch c := t.src[i]; c {
		case '\\':
			i = t.addCommand(i, to, inline)
		case '%':
			n := strings.IndexByte(t.src[i:to], '\n')
			if n < 0 {
				return
			}
			i += n
		case '{', '}', '$':
			i++
		case '~':
			t.b.add(" ", i)
			i++
		case '&':
			t.b.add(" | ", i)
			i++
		case '-':
			n := 1
			for i+n < to && t.src[i+n] == '-' {
				n++
			}
			t.b.add("-", i)
			i += n
		case '`', '\'':
			if !strings.HasPrefix(t.src[i:to], string(c)+string(c)) {
				t.b.add(string(c), i)
				i++
				continue
			}
			t.b.add(`"`, i)
			i += 2
		case '\n':
			if inline {
				t.b.add(" ", i)
			} else {
				t.b.add("\n", i)
			}
			i++
		default:
			_, n := utf8.DecodeRuneInString(t.src[i:to])
			end := i + n
			t.b.addPlain(t.src[i:end], i)
			i = end
		}
	}
}

// groupsAfter returns up to n groups after an offset, and the first option in brackets.
func (t *texReader) groupsAfter(at, to, n int) (groups [][2]int, option [2]int, end int) {
	end = at
	for i := at; i < to && len(groups) < n; {
		switch c := t.src[i]; {
		case c == '{' && t.closingBy[i] > 0 && t.closingBy[i] < to:
			groups = append(groups, [2]int{i + 1, t.closingBy[i]})
			i = t.closingBy[i] + 1
			end = i
		case c == '[' && t.closingBy[i] > 0 && t.closingBy[i] < to && len(groups) == 0:
			if option == [2]int{} {
				option = [2]int{i + 1, t.closingBy[i]}
			}
			i = t.closingBy[i] + 1
			end = i
		case c == '%':
			n := strings.IndexByte(t.src[i:to], '\n')
			if n < 0 {
				return groups, option, end
			}
			i += n
		case unicode.IsSpace(rune(c)):
			i++
		default:
			return groups, option, end
		}
	}
	return groups, option, end
}

// addCommand adds the command at an offset and returns its end.
func (t *texReader) addCommand(i, to int, inline bool) int {
	if i+1 >= to {
		return to
	}
	end := i + 1
	for end < to && (t.src[end] >= 'a' && t.src[end] <= 'z' || t.src[end] >= 'A' && t.src[end] <= 'Z') {
		end++
	}
	if end == i+1 {
		return t.addSymbol(i, to, inline)
	}
	name := t.src[i+1 : end]
	if end < to && t.src[end] == '*' {
		end++
	}
	if accent := texAccents[name]; accent != "" && end < to && (t.src[end] == '{' || t.src[end] == ' ') {
		return t.addAccent(accent, i, end, to)
	}
	if letter := texLetters[name]; letter != "" {
		t.b.add(letter, i)
		return t.skipSpace(end, to)
	}
	if name == "begin" || name == "end" {
		groups, _, after := t.groupsAfter(end, to, 1)
		if len(groups) == 0 {
			return end
		}
		t.b.add("\n", i)
		name = strings.TrimSuffix(t.src[groups[0][0]:groups[0][1]], "*")
		switch {
		case t.src[i+1] == 'e':
			return after
		case name == "tabular" || name == "minipage" || name == "multicols" || name == "adjustwidth" ||
			name == "tabularx" || name == "paracol" || name == "longtable":
			_, _, after = t.groupsAfter(after, to, 2)
			return after
		case !t.addStructure(name, i, after, to):
			return after
		}
		_, _, after = t.groupsAfter(after, to, 6)
		return after
	}
	if name == "href" {
		groups, _, after := t.groupsAfter(end, to, 2)
		if len(groups) < 2 {
			return end
		}
		t.links = append(t.links, groups[0])
		t.read(groups[1][0], groups[1][1], inline)
		return after
	}
	lower := strings.ToLower(name)
	switch {
	case lower == "item":
		t.b.add("\n- ", i)
		return end
	case lower == "textcolor" || lower == "colorbox":
		_, _, after := t.groupsAfter(end, to, 1)
		return after
	case texDropped[lower]:
		_, _, after := t.groupsAfter(end, to, 3)
		return after
	case texSeparators[lower] || strings.HasPrefix(name, "fa") && len(name) > 2 && unicode.IsUpper(rune(name[2])):
		if lower == "hspace" || lower == "hskip" {
			_, _, end = t.groupsAfter(end, to, 1)
		}
		t.b.add(" | ", i)
		return end
	case texBreaks[lower]:
		return t.addNewline(i, end, inline)
	}
	if !inline && t.addStructure(lower, i, end, to) {
		_, _, after := t.groupsAfter(end, to, 6)
		return after
	}
	return t.skipSpace(end, to)
}

// addStructure adds a command whose name labels its arguments. It reports whether it is one.
func (t *texReader) addStructure(name string, at, from, to int) bool {
	groups, option, _ := t.groupsAfter(from, to, 6)
	if len(groups) == 0 {
		return false
	}
	line := func(label string, groups [][2]int, separator string) {
		t.b.add("\n"+label, at)
		for i, g := range groups {
			if i > 0 && strings.TrimSpace(t.src[g[0]:g[1]]) != "" {
				t.b.add(separator, g[0])
			}
			t.read(g[0], g[1], true)
		}
		t.b.add("\n", groups[len(groups)-1][1])
	}
	bare := strings.TrimPrefix(strings.TrimPrefix(name, "e"), "cv")
	switch label := texLabels[bare]; {
	case texSections.MatchString(name):
		t.sections++
		line("\n", groups[:1], "")
	case name == "social" && option[1] > option[0]:
		line(t.src[option[0]:option[1]]+": ", groups[:1], "")
	case name == "namesection":
		line("name: ", groups[:min(2, len(groups))], " ")
		if len(groups) > 2 {
			line("", groups[2:3], "")
		}
	case bare == "title" && (t.article || name == "ecvtitle"):
		line("", groups, " | ")
	case bare == "author":
		// The lines below the name.
		if end := strings.Index(t.src[groups[0][0]:groups[0][1]], `\`+`\`); end >= 0 {
			line("", [][2]int{{groups[0][0] + end, groups[0][1]}}, "")
			groups[0][1] = groups[0][0] + end
		}
		line("name: ", groups[:1], "")
	case label == "title":
		if end := strings.IndexAny(t.src[groups[0][0]:groups[0][1]], `{`+
			`|`); end > 0 { // "Engineer{\enskip\cdotp\enskip}Speaker"
			groups[0][1] = groups[0][0] + end
		}
		line("title: ", groups[:1], "")
	case label == "address":
		line("address: ", groups, ", ")
	case label != "":
		line(label+": ", groups, " ")
	case texEntries.MatchString(name):
		t.addEntry(groups, at)
	case texPairs.MatchString(name):
		separator := " | "
		if strings.HasSuffix(name, "item") || name == "cvline" {
			if first := t.src[groups[0][0]:groups[0][1]]; len(first) > 0 && !texYear.MatchString(first) {
				separator = ": "
			}
		}
		line("", groups[:min(2, len(groups))], separator)
		if name == "cvdoubleitem" && len(groups) > 3 {
			line("", groups[2:4], separator)
		}
	case t.lineStart(at) && !isTeXStyle(name):
		line(name+": ", groups, " ")
	default:
		return false
	}
	return true
}

// addEntry adds an entry of a list of jobs or schools: its period, then title and company. Document
// classes order the arguments differently.
func (t *texReader) addEntry(groups [][2]int, at int) {
	dated := slices.IndexFunc(groups, func(g [2]int) bool {
		return g[1]-g[0] < 60 && texYear.MatchString(t.src[g[0]:g[1]])
	})
	order := []int{0, 1}
	switch {
	case dated == 0 && len(groups) > 2: // moderncv
		order = []int{1, 2}
	case dated == 1 && len(groups) > 2:
		order = []int{0, 2}
	case dated == 3 && len(groups) == 4: // title, company, place or company, place, title
		if place := t.src[groups[1][0]:groups[1][1]]; strings.Contains(place, ",") {
			order = []int{0, 2}
		}
	}
	if t.sections == 0 {
		t.sections++
		t.b.add("\nExperience\n", at)
	}
	t.b.add("\n", at)
	if dated >= 0 {
		g := groups[dated]
		t.read(g[0], g[1], true)
		if texOpenYear.MatchString(t.src[g[0]:g[1]]) {
			t.b.add(" present", g[1])
		}
	}
	for _, i := range order {
		if i < len(groups) && i != dated && strings.TrimSpace(t.src[groups[i][0]:groups[i][1]]) != "" {
			t.b.add(" | ", groups[i][0])
			t.read(groups[i][0], groups[i][1], true)
		}
	}
	t.b.add("\n", groups[len(groups)-1][1])
}

// lineStart reports whether only white space precedes an offset on its line.
func (t *texReader) lineStart(at int) bool {
	for i := at - 1; i >= 0 && t.src[i] != '\n'; i-- {
		if t.src[i] != ' ' && t.src[i] != '\t' {
			return false
		}
	}
	return true
}

// isTeXStyle reports whether a command only formats its argument.
func isTeXStyle(name string) bool {
	switch name {
	case "emph", "underline", "uppercase", "makeuppercase", "lowercase", "centerline", "makebox", "mbox", "fbox",
		"parbox", "resizebox", "scalebox", "hbox", "vbox",
		"url", "nolinkurl", "path", "item", "resumeitem", "cvlistitem", "cvlistdoubleitem", "personalinfo",
		"personalinformation", "begingroup", "bf", "it", "sc", "header", "footnote", "center":
		return true
	}
	return strings.HasPrefix(name, "text") || strings.HasPrefix(name, "font") || strings.HasSuffix(name, "style") ||
		strings.HasSuffix(name, "size") || strings.HasSuffix(name, "large") || strings.HasSuffix(name, "huge")
}

// addSymbol adds a command of one character.
func (t *texReader) addSymbol(i, to int, inline bool) int {
	c := t.src[i+1 : i+2]
	switch {
	case c == `\`:
		end := i + 2
		if end < to && t.src[end] == '*' {
			end++
		}
		if end < to && t.src[end] == '[' && t.closingBy[end] > 0 {
			end = t.closingBy[end] + 1
		}
		return t.addNewline(i, end, inline)
	case strings.Contains(`&%#_${}@`, c):
		t.b.add(c, i)
	case strings.Contains(" ,;:!/\n", c):
		t.b.add(" ", i)
	case texAccents[c] != "":
		return t.addAccent(texAccents[c], i, i+2, to)
	}
	_, n := utf8.DecodeRuneInString(t.src[i+1:])
	return i + 1 + n
}

// addNewline ends a line, or an item of one.
func (t *texReader) addNewline(at, end int, inline bool) int {
	if inline {
		t.b.add(", ", at)
	} else {
		t.b.add("\n", at)
	}
	return end
}

// addAccent adds the next letter with a mark.
func (t *texReader) addAccent(mark string, at, i, to int) int {
	for i < to && (t.src[i] == '{' || t.src[i] == ' ') {
		i++
	}
	if i >= to {
		return to
	}
	letter, n := utf8.DecodeRuneInString(t.src[i:to])
	if letter == '\\' && i+1 < to { // \'\i
		letter, n = rune(t.src[i+1]), 2
	}
	if !unicode.IsLetter(letter) {
		return i
	}
	t.b.add(norm.NFC.String(string(letter)+mark), at)
	i += n
	if i < to && t.src[i] == '}' {
		i++
	}
	return i
}

// skipSpace returns the offset after a command's trailing space or empty group.
func (t *texReader) skipSpace(i, to int) int {
	if i+1 < to && t.src[i] == '{' && t.src[i+1] == '}' {
		return i + 2
	}
	if i < to && t.src[i] == ' ' {
		return i + 1
	}
	return i
}
