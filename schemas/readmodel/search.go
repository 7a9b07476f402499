package readmodel

import (
	"cmp"
	"slices"
	"strings"

	"muster/schemas/company"
	"muster/schemas/record"
)

// searchTable holds rows of a collection's table. Its columns are derived from the collection's fields, so that stored
// and searchable fields cannot differ.
type searchTable struct {
	common     commonColumns
	collection SearchCollection // set by prepare
	hash       column[uint64]
	id         column[string]
	fields     []searchColumn // in the order of the collection's; created with the first row
	repeats    []*hashLists
	deriver    deriver
	lengths    []int    // of the elements of a field
	strings    []string // values of nested fields
	numbers    []int64
	flags      []uint8
}

// searchColumn holds the values of one field. Slices that its type does not use stay empty.
type searchColumn struct {
	field     SearchField
	derived   derivedColumns
	whole     column[string]
	wholes    column[[]string]
	number    column[int64]
	numbers   column[[]int64]
	flags     column[[]uint8]
	values    []string // of the current row
	integers  []int64
	booleans  []uint8
	hasColumn bool // false for the ID, which is the identity column
}

func (t *searchTable) columns(of func() SearchCollection) []field {
	t.prepare(of)
	own := []field{
		{t.collection.Hash, "UInt64", &t.hash},
		{t.collection.ID, "String", &t.id},
	}
	for i := range t.fields {
		c := &t.fields[i]
		f := c.field
		switch {
		case f.Type == SearchText && f.Nested == "":
			if c.hasColumn {
				own = append(own, field{f.Column, "String", &c.whole})
			}
			own = append(own, c.derived.columns()...)
		case f.Type == SearchText:
			own = append(own, field{f.Column, "Array(String)", &c.wholes})
			own = append(own, c.derived.columns()...)
		case f.Type == SearchBoolean:
			own = append(own, field{f.Column, "Array(UInt8)", &c.flags})
		case f.Nested == "":
			own = append(own, field{f.Column, "Int64", &c.number})
		default:
			own = append(own, field{f.Column, "Array(Int64)", &c.numbers})
		}
	}
	for _, r := range t.repeats {
		own = append(own, field{r.name, "Array(UInt64)", r})
	}
	return t.common.columns(own...)
}

func (t *searchTable) prepare(of func() SearchCollection) {
	if t.fields != nil {
		return
	}
	t.collection = of()
	for _, f := range t.collection.Fields {
		if f.Linked {
			continue
		}
		c := searchColumn{field: f, hasColumn: f.Column != t.collection.ID}
		if f.Type == SearchText {
			c.derived = derivedColumns{field: f, repeats: t.repeatsOf(f.Repeats())}
		}
		t.fields = append(t.fields, c)
	}
}

// repeatsOf returns the column of repeats with a name.
func (t *searchTable) repeatsOf(name string) *hashLists {
	for _, r := range t.repeats {
		if r.name == name {
			return r
		}
	}
	r := &hashLists{name: name}
	t.repeats = append(t.repeats, r)
	return r
}

// reset clears state that Batch.Reset does not clear, as it resets columns only.
func (t *searchTable) reset() {
	clear(t.strings)
	t.strings, t.numbers, t.flags = t.strings[:0], t.numbers[:0], t.flags[:0]
}

// row adds a row, which is to be filled and ended.
func (t *searchTable) row(of func() SearchCollection, rec *record.Record, id string, at Position) searchRow {
	t.prepare(of)
	t.common.add(rec, at)
	t.hash.add(KeyHash(t.collection.Namespace, id))
	t.id.add(id)
	return searchRow{t: t}
}

// searchRow fills one row: values are set by path, then end completes it. Fields without values are missing.
type searchRow struct {
	t    *searchTable
	next int // index of the expected next field, in the order of SearchFields
}

// field returns a field's column. In the order of SearchFields this is one comparison.
func (r *searchRow) field(path string) *searchColumn {
	for range r.t.fields {
		c := &r.t.fields[r.next]
		r.next = (r.next + 1) % len(r.t.fields)
		if c.field.Path == path {
			return c
		}
	}
	return nil // Unknown field; a test covers all.
}

func (r *searchRow) str(path, value string) {
	c := r.field(path)
	c.values = append(c.values, value)
}

func (r *searchRow) int(path string, value *int64) {
	c := r.field(path)
	if value == nil {
		c.integers = append(c.integers, SearchMissing)
		return
	}
	c.integers = append(c.integers, *value)
}

func (r *searchRow) count(path string, n int) {
	value := int64(n)
	r.int(path, &value)
}

func (r *searchRow) date(path, day string) {
	c := r.field(path)
	v, ok := record.PartialDate(day).Version()
	if !ok {
		c.integers = append(c.integers, SearchMissing)
		return
	}
	c.integers = append(c.integers, Milliseconds(v))
}

func (r *searchRow) bool(path string, value bool) {
	c := r.field(path)
	var b uint8
	if value {
		b = 1
	}
	c.booleans = append(c.booleans, b)
}

// Milliseconds returns an instant as search compares it: milliseconds since 1970, truncated.
func Milliseconds(v record.Version) int64 { return v.Time().UnixMilli() }

// end completes the row.
func (r *searchRow) end() {
	t := r.t
	for i := range t.fields {
		c := &t.fields[i]
		switch {
		case c.field.Type == SearchText && c.field.Nested == "":
			value := ""
			if len(c.values) > 0 {
				value = c.values[0]
			}
			words := t.deriver.text(&c.derived, value)
			if c.hasColumn {
				c.whole.add(c.stored(value, words))
			}
		case c.field.Type == SearchText:
			begin := len(t.strings)
			t.lengths = t.deriver.elements(&c.derived, c.values, t.lengths[:0])
			for i, v := range c.values {
				t.strings = append(t.strings, c.stored(v, t.lengths[i]))
			}
			c.wholes.add(t.strings[begin:len(t.strings):len(t.strings)])
		case c.field.Type == SearchBoolean:
			begin := len(t.flags)
			t.flags = append(t.flags, c.booleans...)
			c.flags.add(t.flags[begin:len(t.flags):len(t.flags)])
		case c.field.Nested == "":
			value := int64(SearchMissing)
			if len(c.integers) > 0 {
				value = c.integers[0]
			}
			c.number.add(value)
		default:
			begin := len(t.numbers)
			t.numbers = append(t.numbers, c.integers...)
			c.numbers.add(t.numbers[begin:len(t.numbers):len(t.numbers)])
		}
		clear(c.values)
		c.values, c.integers, c.booleans = c.values[:0], c.integers[:0], c.booleans[:0]
	}
	for _, r := range t.repeats {
		r.endRow()
	}
}

// stored returns a text with a number of tokens as its column holds it (SearchField).
func (c *searchColumn) stored(value string, words int) string {
	if words == 0 || c.field.Subfields || IsKeyword(value) {
		return value
	}
	return ""
}

// searchPerson adds the row of search_people of a network-person: the search document of interface.md with
// all list entries in the order in which they are served.
func (r *Renderer) searchPerson(
	b *Batch, rec *record.Record, p *record.NetworkPerson, at Position, experience, education, certifications []ranked,
) {
	row := b.searchPeople.row(PeopleCollection, rec, p.ProfileID, at)
	defer row.end()
	if rec.Deleted {
		return
	}
	row.str("network_url", p.URL)
	row.str("network_username", p.Username)
	row.str("profile_id", p.ProfileID)
	updated := Milliseconds(rec.Version)
	row.int("updated_at", &updated)
	row.str("profile.first_name", p.FirstName)
	row.str("profile.last_name", p.LastName)
	row.str("profile.full_name", p.FullName)
	row.str("profile.headline", p.Headline)
	row.str("profile.summary", p.Summary)
	row.str("profile.image_url", p.Photo)
	row.int("profile.connections", p.Connections)
	row.int("profile.followers", p.Followers)
	if l := p.Location; l != nil {
		row.str("profile.location.raw_address", l.RawAddress)
		row.str("profile.location.city", l.City)
		row.str("profile.location.state", l.State)
		row.str("profile.location.country", l.Country)
		row.str("profile.location.country_code", l.CountryCode)
		row.str("profile.location.continent", l.Continent)
	}
	row.str("profile.personal_email", personalEmail(p))
	if c := p.CurrentPosition; c != nil {
		title, _ := positionTexts(c)
		row.str("current_position.title", title)
		if c.Company != nil {
			row.str("current_position.company_name", c.Company.Name)
			row.str("current_position.company_id", c.Company.CompanyID)
		}
		row.date("current_position.start_date", c.Start.Full())
	}
	row.count("experience_count", len(experience))
	row.count("education_count", len(education))
	row.int("years_of_experience", yearsOfExperience(p.Experience, experience, rec.Version))
	for _, e := range experience {
		row.experience(&p.Experience[e.index], e.ongoing)
	}
	for _, e := range education {
		row.education(&p.Education[e.index])
	}
	for _, e := range certifications {
		c := &p.Certifications[e.index]
		row.str("certifications.name", c.Name)
		row.str("certifications.issuer", c.Issuer)
		row.date("certifications.issue_date", c.IssueDate.Full())
	}
	for i := range p.Languages {
		if l := &p.Languages[i]; !isEmptyLanguage(l) {
			row.str("languages.language", l.Language)
			row.str("languages.proficiency", l.Proficiency)
		}
	}
	for i := range p.Skills {
		if s := &p.Skills[i]; !isEmptySkill(s) {
			row.str("skills.skill", s.Skill)
		}
	}
}

// yearsOfExperience returns the whole years of the months in which any of the entries with a start date was held, nil
// if there is none. Ongoing ones last until the version of the record; one without an end is its first month.
func yearsOfExperience(list []record.Position, entries []ranked, until record.Version) *int64 {
	month := func(v record.Version) int {
		t := v.Time()
		return 12*t.Year() + int(t.Month()) - 1
	}
	type span struct{ first, last int }
	var spans []span
	for _, e := range entries {
		if e.start < 0 {
			continue
		}
		s := span{first: month(e.start)}
		switch {
		case e.ongoing:
			s.last = month(until)
		case list[e.index].End != "":
			s.last = month(e.end)
		default:
			s.last = s.first
		}
		spans = append(spans, s)
	}
	if spans == nil {
		return nil
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	months, next := 0, 0 // next: the first month that is not counted yet
	for _, s := range spans {
		if from := max(s.first, next); s.last >= from {
			months += s.last - from + 1
			next = s.last + 1
		}
	}
	years := int64(months / 12)
	return &years
}

// positionTexts returns the title and the description of a position (schemas/MAPPING.md, 3.4).
func positionTexts(p *record.Position) (title, description string) {
	switch {
	case p.Title == "":
		return p.Summary, p.Description
	case p.Description == "":
		return p.Title, p.Summary
	}
	return p.Title, p.Description
}

// experience adds an entry (schemas/MAPPING.md, 3.4).
func (r *searchRow) experience(p *record.Position, ongoing bool) {
	title, description := positionTexts(p)
	var company record.CompanyRef
	if p.Company != nil {
		company = *p.Company
	}
	var location string
	if l := p.Location; l != nil {
		if location = l.RawAddress; location == "" {
			location = joinPresent(l.City, l.State, l.Country)
		}
	}
	end := p.End.Full()
	if ongoing {
		end = "" // served as null
	}
	r.str("experience.title", title)
	r.str("experience.company_name", company.Name)
	r.str("experience.company_id", company.CompanyID)
	r.str("experience.company_url", company.NetworkURL)
	r.str("experience.location", location)
	r.str("experience.description", description)
	r.date("experience.start_date", p.Start.Full())
	r.date("experience.end_date", end)
	r.bool("experience.is_current", ongoing)
}

// education adds an entry (schemas/MAPPING.md, 3.5).
func (r *searchRow) education(e *record.Education) {
	var school record.SchoolRef
	if e.School != nil {
		school = *e.School
	}
	study := e.FieldOfStudy
	if study == "" {
		study = joinPresent(e.Majors...)
	}
	r.str("education.school_name", school.Name)
	r.str("education.school_id", school.SchoolID)
	r.str("education.school_url", school.NetworkURL)
	r.str("education.degree", joinPresent(e.Degrees...))
	r.str("education.field_of_study", study)
	r.date("education.start_date", e.Start.Full())
	r.date("education.end_date", e.End.Full())
}

// joinPresent joins the non-empty values, as writer.joined does.
func joinPresent(values ...string) string {
	if !slices.Contains(values, "") {
		return strings.Join(values, ", ")
	}
	return strings.Join(slices.DeleteFunc(slices.Clone(values), func(s string) bool { return s == "" }), ", ")
}

// searchCompany adds the row of search_companies of a network-company.
func (r *Renderer) searchCompany(b *Batch, rec *record.Record, p *record.NetworkCompany, at Position) {
	row := b.searchCompanies.row(CompaniesCollection, rec, p.CompanyID, at)
	defer row.end()
	if rec.Deleted {
		return
	}
	row.str("company_id", p.CompanyID)
	row.str("network_slug", p.NetworkSlug)
	row.str("network_id", p.NetworkID)
	if c := p.Profile; c != nil {
		row.str("profile.name", c.Name)
		row.str("profile.tagline", c.Tagline)
		row.str("profile.description", c.Description)
		row.str("profile.industry", c.Industry)
		row.str("profile.company_size", c.CompanySize)
		row.int("profile.employees", c.Employees)
		row.int("profile.founded", c.Founded)
		row.str("profile.website", c.Website)
		domain, _ := company.WebsiteDomain(c.Website)
		row.str("profile.domain", domain)
		row.str("profile.phone", c.Phone)
		for _, s := range c.Specialties {
			row.str("profile.specialties", s)
		}
	}
	if h := p.Headquarters; h != nil {
		row.str("headquarters.city", h.City)
		row.str("headquarters.region", h.Region)
		row.str("headquarters.country", h.Country)
		row.str("headquarters.postal_code", h.PostalCode)
		row.str("headquarters.line1", h.Line1)
		row.str("headquarters.line2", h.Line2)
	}
}
