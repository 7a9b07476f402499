package suppress

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/unicode/norm"
)

// Types of identifiers of California's deletion lists (DROP, technical
// specifications 1.2.0, "Working with the data"). An e-mail address of a list is
// one of [Email]: both standard forms are the same.
const (
	DropPhone   Type = "drop_phone"
	DropNDZ     Type = "drop_ndz"
	DropNameVIN Type = "drop_namevin"
	DropMAID    Type = "drop_maid"
	DropCTVID   Type = "drop_ctvid"
)

// DropLists returns the lists' names, in a fixed order.
func DropLists() []string { return []string{"NDZ", "Email", "Phone", "MAID", "NameVIN", "CTVID"} }

// DropType returns the type of the identifiers on a list.
func DropType(list string) (Type, bool) {
	switch list {
	case "Email":
		return Email, true
	case "Phone":
		return DropPhone, true
	case "NDZ":
		return DropNDZ, true
	case "NameVIN":
		return DropNameVIN, true
	case "MAID":
		return DropMAID, true
	case "CTVID":
		return DropCTVID, true
	}
	return "", false
}

func isDrop(t Type) bool {
	switch t {
	case DropPhone, DropNDZ, DropNameVIN, DropMAID, DropCTVID:
		return true
	}
	return false
}

// DropValue is an identifier as on a list, by its hash.
type DropValue struct {
	Type Type
	Sum  [sha256.Size]byte
}

// DropPhoneNumber returns the last ten digits. It and the functions below return the normalized forms that a
// list's hashes are computed from, or "" for values that cannot be on a list.
func DropPhoneNumber(v string) string {
	digits := filterRunes(v, func(r rune) bool { return '0' <= r && r <= '9' })
	return digits[max(0, len(digits)-10):]
}

// DropName returns letters and digits in lower case. Latin letters lose their accents, Greek and Cyrillic
// ones are romanized, other scripts are unchanged.
func DropName(v string) string {
	var out strings.Builder
	for _, r := range norm.NFKC.String(v) {
		r = unicode.ToLower(r)
		if latin, ok := dropLetters[r]; ok {
			out.WriteString(latin)
			continue
		}
		if !unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic) {
			if unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) && !unicode.Is(unicode.Inherited, r) {
				out.WriteRune(r)
			}
			continue
		}
		for _, part := range norm.NFKD.String(string(r)) {
			part = unicode.ToLower(part)
			if latin, ok := dropLetters[part]; ok {
				out.WriteString(latin)
			} else if unicode.IsLetter(part) {
				out.WriteRune(part)
			}
		}
	}
	return out.String()
}

// dropLetters are letters without a decomposition into Latin ones. The specification names the scripts but
// has no table; this is the usual romanization.
var dropLetters = map[rune]string{ //nolint:gochecknoglobals // a constant
	'ß': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'đ': "d", 'ð': "d", 'ħ': "h", 'ı': "i", 'ł': "l", 'ŋ': "n", 'þ': "th",
	'ŧ': "t", 'ĸ': "k", 'ə': "e",
	'а': "a", 'б': "b", 'в': "v", 'г': "g", 'д': "d", 'е': "e", 'ё': "yo", 'ж': "zh", 'з': "z", 'и': "i", 'й': "y",
	'к': "k", 'л': "l", 'м': "m",
	'н': "n", 'о': "o", 'п': "p", 'р': "r", 'с': "s", 'т': "t", 'у': "u", 'ф': "f", 'х': "kh", 'ц': "ts", 'ч': "ch",
	'ш': "sh", 'щ': "shch",
	'ъ': "", 'ы': "y", 'ь': "", 'э': "e", 'ю': "yu", 'я': "ya", 'і': "i", 'ї': "yi", 'є': "ye", 'ґ': "g", 'ў': "u",
	'ј': "j", 'љ': "lj", 'њ': "nj",
	'ћ': "c", 'ђ': "dj", 'џ': "dz", 'ѓ': "g", 'ќ': "k", 'ѕ': "dz",
	'α': "a", 'β': "v", 'γ': "g", 'δ': "d", 'ε': "e", 'ζ': "z", 'η': "i", 'θ': "th", 'ι': "i", 'κ': "k", 'λ': "l",
	'μ': "m", 'ν': "n", 'ξ': "x",
	'ο': "o", 'π': "p", 'ρ': "r", 'σ': "s", 'ς': "s", 'τ': "t", 'υ': "y", 'φ': "f", 'χ': "ch", 'ψ': "ps", 'ω': "o",
}

// DropDate returns a full date as YYYYMMDD.
func DropDate(v string) string {
	v = strings.TrimSpace(v)
	if at, _, ok := strings.Cut(v, "T"); ok && len(at) == len("2006-01-02") {
		v = at
	}
	for _, layout := range []string{"2006-01-02", "20060102", "2006-01-02 15:04:05", "January 2, 2006", "Jan 2, 2006",
		"2 January 2006", "2 Jan 2006", "1/2/2006"} {
		if t, err := time.Parse(layout, v); err == nil {
			return t.Format("20060102")
		}
	}
	return ""
}

// DropZIP returns letters and digits in lower case, up to a hyphen, without leading zeros, at most five.
func DropZIP(v string) string {
	v, _, _ = strings.Cut(v, "-")
	v = strings.TrimLeft(alphanumeric(v), "0")
	return v[:min(len(v), 5)]
}

// DropVIN returns a vehicle identification number of 17 letters and digits.
func DropVIN(v string) string { return sized(alphanumeric(v), 17, 17) }

// DropAdvertisingID returns a mobile advertising id of 32 hexadecimal digits.
func DropAdvertisingID(v string) string {
	v = alphanumeric(v)
	if strings.Trim(v, "0123456789abcdef") != "" {
		return ""
	}
	return sized(v, 32, 32)
}

// DropTelevisionID returns the id of a connected television, 8 to 32 letters and digits.
func DropTelevisionID(v string) string { return sized(alphanumeric(v), 8, 32) }

func sized(v string, least, most int) string {
	if len(v) < least || len(v) > most {
		return ""
	}
	return v
}

func alphanumeric(v string) string {
	return filterRunes(strings.ToLower(v), func(r rune) bool { return 'a' <= r && r <= 'z' || '0' <= r && r <= '9' })
}

func filterRunes(v string, wanted func(rune) bool) string {
	return strings.Map(func(r rune) rune {
		if wanted(r) {
			return r
		}
		return -1
	}, v)
}

// DropComposite returns the hash of the lists NDZ (first name, last name, date, ZIP) and NameVIN (first name,
// last name, VIN): that of the concatenated base64 hashes of the fields, given in normalized form.
func DropComposite(fields ...string) [sha256.Size]byte {
	var all strings.Builder
	for _, f := range fields {
		sum := Sum(f)
		all.WriteString(base64.StdEncoding.EncodeToString(sum[:]))
	}
	return Sum(all.String())
}

// maxDrop is the maximum number of values of a field per record.
const maxDrop = 16

// dropFields are the normalized values of a record.
type dropFields struct{ first, last, dates, zips, vins, devices, televisions, phones []string }

// DropValues returns the values of a person's record, as JSON, that may be on a list, except e-mail
// addresses: phone numbers, and values in the usual fields for a date of birth, ZIP code, VIN, advertising id
// or television id, at the top level or in a location or address.
func DropValues(raw []byte) []DropValue {
	var f dropFields
	f.object(lenient(raw), 0)
	var out []DropValue
	add := func(t Type, forms []string) {
		for _, v := range forms {
			out = append(out, DropValue{t, Sum(v)})
		}
	}
	add(DropPhone, f.phones)
	add(DropMAID, f.devices)
	add(DropCTVID, f.televisions)
	for _, first := range f.first {
		for _, last := range f.last {
			for _, date := range f.dates {
				for _, zip := range f.zips {
					out = append(out, DropValue{DropNDZ, DropComposite(first, last, date, zip)})
				}
			}
			for _, vin := range f.vins {
				out = append(out, DropValue{DropNameVIN, DropComposite(first, last, vin)})
			}
		}
	}
	return out
}

// object reads one object. It returns false if it cannot continue.
func (f *dropFields) object(d *jsontext.Decoder, depth int) bool {
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return false
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return false
		}
		name := strings.ToLower(t.String())
		if !f.member(d, name, depth) {
			return false
		}
	}
	_, err := d.ReadToken()
	return err == nil
}

func (f *dropFields) member(d *jsontext.Decoder, name string, depth int) bool {
	to, standard := f.target(name)
	within := strings.HasPrefix(name, "location") || strings.HasPrefix(name, "address")
	switch kind := d.PeekKind(); {
	case kind == '{' && within && depth < 2:
		return f.object(d, depth+1)
	case kind == '[' && (to != nil || within && depth < 2):
		if _, err := d.ReadToken(); err != nil {
			return false
		}
		for d.PeekKind() != ']' {
			if d.PeekKind() == '[' || d.PeekKind() == '{' && !within {
				if d.SkipValue() != nil {
					return false
				}
				continue
			}
			if !f.member(d, name, depth) {
				return false
			}
		}
		_, err := d.ReadToken()
		return err == nil
	case to != nil && (kind == '"' || kind == '0'):
		t, err := d.ReadToken()
		if err != nil {
			return false
		}
		if v := standard(t.String()); v != "" && len(*to) < maxDrop {
			*to = append(*to, v)
		}
		return true
	case kind == 0:
		return false
	}
	return d.SkipValue() == nil
}

// target returns the list and the normalization of a field's values.
func (f *dropFields) target(name string) (*[]string, func(string) string) {
	switch name {
	case "first_name", "given_name":
		return &f.first, DropName
	case "last_name", "family_name":
		return &f.last, DropName
	case "date_of_birth", "birth_date", "birthdate", "birthday", "dob":
		return &f.dates, DropDate
	case "zip", "zip_code", "zipcode", "postal_code", "postcode":
		return &f.zips, DropZIP
	case "vin", "vins":
		return &f.vins, DropVIN
	case "maid", "maids", "idfa", "gaid", "aaid", "advertising_id", "mobile_advertising_id":
		return &f.devices, DropAdvertisingID
	case "ctvid", "ctv_id", "tv_id":
		return &f.televisions, DropTelevisionID
	}
	if strings.Contains(name, "phone") || strings.Contains(name, "mobile") {
		return &f.phones, DropPhoneNumber
	}
	return nil, nil
}

// DropMembers returns substrings of the field names that DropValues reads, except names and locations: a JSON text
// without any of them has no value that may be on a list, except e-mail addresses.
func DropMembers() []string {
	return []string{"phone", "mobile", `"date_of_birth`, `"birth`, `"dob`, `"vin`, `"maid`, `"idfa`, `"gaid`, `"aaid`,
		"advertising_id", `"ctv`, `"tv_id`}
}
