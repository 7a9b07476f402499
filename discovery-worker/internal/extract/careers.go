package extract

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"muster/discovery-worker/internal/extract/lexicon"
	"muster/discovery-worker/internal/extract/phrase"
	"muster/discovery-worker/internal/extract/view"
)

// eras are the years before the first years of Japanese eras.
var eras = map[string]int{ //nolint:gochecknoglobals // a constant table
	"明治": 1867, "大正": 1911, "昭和": 1925, "平成": 1988, "令和": 2018, "M": 1867, "T": 1911, "S": 1925, "H": 1988, "R": 2018,
}

const (
	careerDate = `(?:(?:(?:明治|大正|昭和|平成|令和)\s?(?:\d{1,2}|元)|(?:19` +
		`|20)\d\d)\s?年(?:\s?\d{1,2}\s?月)?(?:\s?\d{1,2}\s?日)?|[MTSHR]\d{1,2}[./年]\s?\d{1,2}月?|(?:19|20)\d\d[./-]\d{1,2})`
	careerNow = `現在に至る|現在にいたる|現在在職中|在職中|在籍中|勤務中|現在|至今|現職`
)

// careerPatterns match the lines of Japanese résumés (履歴書, 職務経歴書).
type careerPatterns struct {
	date, after *regexp.Regexp
}

func newCareerPatterns() careerPatterns {
	period := `(` + careerDate + `)(\s*(?:~|〜|-|–|—|−|から|より|→)\s*(` + careerDate + `|` + careerNow + `)?)?`
	return careerPatterns{
		date:  regexp.MustCompile(`^` + period + `\s*[:、,]?\s*(.*)$`),              // 2019年4月 株式会社山 入社
		after: regexp.MustCompile(`^(.{2,40}?)\s*[(\[]\s*` + period + `\s*[)\]]$`), // 株式会社山(2019年4月~現在)
	}
}

var (
	careerForm = regexp.MustCompile(`履\s?歴\s?書|職務経歴|氏\s?名|現住所|学\s?歴|職\s?歴|フリガナ|ふりがな|経歴`)
	careerPart = regexp.MustCompile(`^(?:[【■◆●\[<(]\s*)?(学歴|最終学歴|職歴|職務経歴|職務履歴|経歴|略歴|学歴・職歴` +
		`|学歴・職務経歴)(?:\s*[】\]>)])?\s*(?::\s*|$)`)
	careerJoined = regexp.MustCompile(`(?:に|へ|を)?\s?(?:中途|新卒)?(?:入社|入職|入所|就職|入行|入庁|入局|転職|着任|入団|勤務|就任|設立|起業|開業)\s?$`)
	careerLeft   = regexp.MustCompile(`(?:を)?\s?(?:一身上の都合により|自己都合により|会社都合により|契約期間満了により|定年により|結婚により)?\s?(?:退社|退職|退所` +
		`|退行|退任|契約満了)\s?$`)
	careerSchool = regexp.MustCompile(`(?:を|に)?\s?(?:入学|卒業|修了|中退|編入学?|転入学?|卒業見込み?|修了見込み?|卒)\s?$`)
	careerOpen   = regexp.MustCompile(careerNow)
	careerNote   = regexp.MustCompile(`\s*[(\[][^()\[\]]*[)\]]\s*$`)
	careerTitle  = regexp.MustCompile(`(?:主任|係長|課長|部長|次長|室長|店長|本部長|支店長|所長|工場長|リーダー|マネージャー|マネジャー|エンジニア|デザイナー|プログラマー` +
		`|コンサルタント|スタッフ|ディレクター|プロデューサー|アナリスト|看護師|薬剤師|医師|教諭|講師|教授|研究員|技師|社長|取締役|代表|主査|主幹|参事|職員|秘書|編集者|記者|会計士|弁護士|税理士` +
		`|建築士|営業職|事務職|技術者|担当)$`)
	careerOrg = regexp.MustCompile(`株式会社|有限会社|合同会社|合資会社|\(株\)|㈱|\(有\)|㈲|財団法人|社団法人|法人|銀行|病院|医院|クリニック|事務所|研究所|協会` +
		`|組合|商店|製作所|工業|商事|大学|学園|学校|市役所|県庁|省|庁`)
	careerUnread = regexp.MustCompile(`^(?:ふりがな|フリガナ|よみがな|ヨミガナ|生年月日|性別|年齢|満\d|写真|配偶者|扶養|最寄り?駅|国籍|本籍)`)
	schoolName   = regexp.MustCompile(`大学院?|高等学校|高校|専門学校|短期大学|学院|高専|中学校|小学校|スクール`)
)

// readCareers reads Japanese résumé forms: lines with a label and a value without a colon, and
// lines with a date, an organization and a verb such as "joined".
func (d *document) readCareers() {
	form := false
	for _, line := range d.lines {
		if len(line.Text()) < 300 && careerForm.MatchString(line.Text()) {
			form = true
			break
		}
	}
	if !form {
		return
	}
	var jobs []position
	listed := false // below the heading of a list
	for i, line := range d.lines {
		t := view.TrimBullet(line).Trim("■◆●▼▪【】・")
		text := t.Text()
		if text == "" || len(text) > 400 || d.used[i] {
			continue
		}
		if m := careerPart.FindStringSubmatchIndex(text); m != nil {
			listed = true
			d.used[i] = true
			if t = t.Sub(m[1], len(text)).Trim(""); t.Start == t.End {
				continue
			}
		} else if d.e.words.Heading(text) != "" {
			listed = false
			continue
		} else if careerUnread.MatchString(lexicon.Letters(text)) {
			d.used[i] = true
			continue
		} else if kind, value, ok := d.spacedLabel(t); ok {
			d.used[i] = true
			d.e.readValue(d.f, kind, value, &d.labeledJob, labeled)
			continue
		}
		if d.readCareerLine(t, listed, &jobs) {
			d.used[i] = true
		}
	}
	for i, p := range jobs {
		p.past = p.end != "" || i < len(jobs)-1 && !p.current
		p.current = !p.past
		d.f.addPosition(p)
	}
}

// spacedLabel splits a label and a value that only a space separates. The characters of the label
// may be spaced too.
func (d *document) spacedLabel(t view.Part) (kind string, value view.Part, ok bool) {
	text, label := t.Text(), ""
	for i, r := range text {
		switch {
		case r == ' ' || r == ':':
			if k := d.e.words.Labels[label]; k != "" && utf8.RuneCountInString(label) > 1 {
				if rest := t.Sub(i, len(text)).Trim(":|"); rest.Start < rest.End && d.e.words.Kind(rest.Text()) == "" &&
					!careerUnread.MatchString(rest.Text()) {
					kind, value, ok = k, rest, true
				}
			}
			continue
		case !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || len(label) > 24:
			return kind, value, ok
		}
		label += string(r)
	}
	return kind, value, ok
}

// readCareerLine reads one line of a list of schools and jobs. It reports whether it is one.
func (d *document) readCareerLine(t view.Part, listed bool, jobs *[]position) bool {
	line := t.Text()
	x := d.e.careers
	last := len(*jobs) - 1
	if careerOpen.MatchString(line) && len([]rune(line)) <= 10 && last >= 0 { // 現在に至る
		(*jobs)[last].current, (*jobs)[last].end = true, ""
		return true
	}
	p := position{listed: true, confidence: formed, span: t.Span()}
	var rest view.Part
	if m := x.date.FindStringSubmatchIndex(line); m != nil {
		p.start = careerMonth(line[m[2]:m[3]])
		if m[6] >= 0 {
			p.end = careerMonth(line[m[6]:m[7]])
		}
		p.current = m[4] >= 0 && p.end == ""
		rest = t.Sub(m[8], m[9])
	} else if m := x.after.FindStringSubmatchIndex(line); m != nil {
		p.start = careerMonth(line[m[4]:m[5]])
		if m[8] >= 0 {
			p.end = careerMonth(line[m[8]:m[9]])
		}
		p.current = m[6] >= 0 && p.end == ""
		rest = t.Sub(m[2], m[3])
	} else {
		return false
	}
	p.current = p.current || careerOpen.MatchString(rest.Text())
	for {
		m := careerNote.FindStringIndex(rest.Text())
		if m == nil || m[0] == 0 {
			break
		}
		rest = rest.Sub(0, m[0]).Trim("")
	}
	org := rest.Text()
	switch {
	case careerSchool.MatchString(org):
		end := careerSchool.FindStringIndex(org)[0]
		d.e.readSchoolLine(d.f, rest.Sub(0, end), formed)
		return true
	case careerLeft.MatchString(org):
		if last >= 0 {
			(*jobs)[last].end, (*jobs)[last].current = p.start, false
		}
		return true
	case careerJoined.MatchString(org):
		rest = rest.Sub(0, careerJoined.FindStringIndex(org)[0]).Trim("")
	case !listed && !careerOrg.MatchString(org):
		return false
	case schoolName.MatchString(org) && !careerOrg.MatchString(schoolName.ReplaceAllString(org, "")):
		d.e.readSchoolLine(d.f, rest, formed)
		return true
	}
	names := rest.Split(space)
	// 株式会社 山
	if len(names) > 1 && careerOrg.FindString(names[0].Text()) == names[0].Text() && names[0].Start < names[0].End {
		names = append([]view.Part{rest.Sub(0, names[1].End-rest.Start)}, names[2:]...)
	}
	for _, n := range names[1:] {
		if !p.title.ok() && careerTitle.MatchString(n.Text()) {
			p.title = valueOf(n, formed)
		}
	}
	if org := names[0].Trim("、,・"); org.Start < org.End && (careerOrg.MatchString(org.Text()) || listed) {
		p.company = valueOf(org, formed)
	}
	if !p.company.ok() {
		return false
	}
	if last >= 0 && (*jobs)[last].end == "" && p.start > (*jobs)[last].start && !(*jobs)[last].current {
		(*jobs)[last].end = p.start
	}
	*jobs = append(*jobs, p)
	return true
}

// careerMonth returns a date in its written precision, or "" for the present.
func careerMonth(s string) string {
	if careerOpen.MatchString(s) {
		return ""
	}
	base := 0
	for era, year := range eras {
		if rest, ok := strings.CutPrefix(s, era); ok {
			base, s = year, strings.Replace(rest, "元", "1", 1)
		}
	}
	all := phrase.Number.FindAllString(s, 2)
	if len(all) == 0 {
		return ""
	}
	year, err := strconv.Atoi(all[0])
	if err != nil {
		return ""
	}
	date := strconv.Itoa(base + year)
	if len(all) > 1 {
		if month, err := strconv.Atoi(all[1]); err == nil && month >= 1 && month <= 12 {
			date += "-" + strconv.Itoa(month/10) + strconv.Itoa(month%10)
		}
	}
	return date
}
