package clause

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"muster/platform/suggest"
	"muster/schemas/readmodel"
)

// otherNames maps our fields to their names at People Data Labs, Coresignal, other vendors and in everyday use,
// without their wrapping objects (see unwrapped). Names without an equivalent, such as industry, are not listed: a
// wrong hint is worse than none.
func otherNames() map[string]string {
	out := make(map[string]string)
	for field, names := range map[string]string{
		"network_url": "linkedin_url profile_url network_profile_url linkedin linkedin_profile_url " +
			"professional_network_url websites_linkedin public_profile_url url profile_link",
		"network_username": "linkedin_username username slug public_identifier shorthand_name linkedin_slug " +
			"canonical_shorthand_name profile_slug handle public_id user_name linkedin_id",
		"profile_id": "id person_id pdl_id uid uuid member_id",
		"updated_at": "last_updated updated last_modified modified_at checked_at changed_at updated_date " +
			"last_updated_at date_updated",
		"profile.first_name": "given_name firstname forename first",
		"profile.last_name":  "family_name lastname surname last",
		"profile.full_name":  "name full_name display_name fullname person_name formatted_name",
		"profile.headline":   "tagline occupation linkedin_headline",
		"profile.summary":    "bio about about_me description biography profile_summary linkedin_summary",
		"profile.image_url": "picture_url photo photo_url avatar avatar_url image picture profile_picture profile_pic_url " +
			"logo_url image_link",
		"profile.connections": "linkedin_connections connections_count num_of_connections connection_count " +
			"number_of_connections",
		"profile.followers":        "followers_count follower_count linkedin_followers num_followers number_of_followers",
		"profile.location.country": "location_country country country_name location.country_name",
		"profile.location.country_code": "country_code country_iso country_iso2 location_country_code " +
			"location_country_iso2 iso_country",
		"profile.location.raw_address": "location location_name address location_metro metro location_full " +
			"location_raw_address place location.name location.full location.address location.raw",
		"profile.location.city":      "city locality location_locality location_city location.city location.locality town",
		"profile.location.state":     "region state location_region location_state location.region location.state province",
		"profile.location.continent": "continent location_continent location.continent",
		"profile.personal_email": "email emails personal_emails work_email e_mail email_address recommended_personal_email " +
			"professional_email primary_professional_email mail work_emails email_addresses business_email " +
			"emails.address",
		"experience.title": "job_title title position position_title role job_role experience.position experience.role " +
			"experience.position_title experience.title.name experience.name experience.job_title experience.job",
		"experience.company_name": "job_company_name company company_name employer organization organisation " +
			"experience.company " +
			"experience.company.name experience.employer experience.employer_name experience.organization " +
			"experience.organization_name experience.companyname experience.org",
		"experience.company_id": "job_company_id company_id experience.company.id employer_id",
		"experience.company_url": "job_company_url job_company_linkedin_url company_url experience.company_url.exact " +
			"experience.company.url experience.company.linkedin_url experience.company_linkedin_url " +
			"experience.company.network_url experience.url company_linkedin_url",
		"experience.location": "experience.location_name experience.location_names job_location experience.place " +
			"experience.city experience.location.name experience.country",
		"experience.description": "job_summary job_description experience.summary experience.responsibilities " +
			"experience.details " +
			"active_experience_description",
		"experience.start_date": "job_start_date start_date started_at date_from experience.date_from experience.start " +
			"experience.from experience.started_at experience.begin experience.start_year",
		"experience.end_date": "job_end_date end_date ended_at date_to experience.date_to experience.end experience.to " +
			"experience.ended_at experience.end_year",
		"experience.is_current": "is_current current is_working experience.current experience.active_experience " +
			"experience.is_primary experience.active experience.ongoing experience.is_active " +
			"active_experience",
		"current_position.title": "current_title current_job_title active_experience_title current_role",
		"current_position.company_name": "current_company current_employer current_company_name " +
			"active_experience_company_name current_position.company current_position.company.name",
		"current_position.company_id": "current_company_id active_experience_company_id current_position.company.id",
		"current_position.start_date": "current_position.start current_position.started_at current_position.from",
		"experience_count":            "experiences_count positions_count num_of_positions jobs_count number_of_jobs",
		"education_count":             "educations_count schools_count",
		"years_of_experience": "inferred_years_experience total_experience total_years_of_experience years_experience " +
			"experience_years years_of_exp",
		"skills.skill": "skill skills.name skills.title skill_name skill_names",
		"education.school_name": "school school_name university college institution institution_name education.school " +
			"education.school.name education.institution education.institution_name education.university " +
			"education.college education.name education.title",
		"education.school_id": "school_id education.school.id education.institution_id",
		"education.school_url": "school_url education.school.url education.school.network_url " +
			"education.school.linkedin_url " +
			"education.url education.institution_url",
		"education.degree": "degree degrees education.degrees education.degree_name education.program " +
			"education.qualification education.degree.name",
		"education.field_of_study": "major majors field_of_study education.majors education.major education.minors " +
			"education.minor " +
			"education.subject education.field education.study education.specialization education.subjects",
		"education.start_date": "education.date_from education.start education.from education.start_year " +
			"education.date_from_year",
		"education.end_date": "education.date_to education.end education.to education.end_year education.date_to_year " +
			"education.graduation_date education.graduation_year",
		"certifications.name": "certifications.title certifications.certification certifications.certificate certification " +
			"certificates certifications.certification_name",
		"certifications.issuer": "certifications.organization certifications.authority certifications.issued_by " +
			"certifications.organisation certifications.company certifications.issuer_name " +
			"certifications.provider",
		"certifications.issue_date": "certifications.date_from certifications.start_date certifications.date " +
			"certifications.issued_at " +
			"certifications.issued certifications.start",
		"languages.language": "language languages.name languages.title spoken_languages languages.lang " +
			"languages.language_name",
		"languages.proficiency": "languages.level proficiency language_proficiency languages.fluency languages.skill",
	} {
		for name := range strings.FieldsSeq(names) {
			out[name] = field
		}
	}
	return out
}

// otherName returns the field that a name of another product means. Suffixes of whole values are kept (.exact is
// .keyword).
func (l *lowering) otherName(name string) (string, bool) {
	const longest = 128 // the longest listed name
	if len(name) > longest {
		return "", false
	}
	snake := snakeCase(name)
	names := otherNames()
	maps.DeleteFunc(names, func(_, field string) bool { // Companies have few of the fields of people.
		_, own := l.fields[strings.TrimSuffix(field, keywordSuffix)]
		return !own
	})
	if field, ok := names[snake]; ok {
		return field, true
	}
	base, whole := snake, false
	for _, suffix := range []string{".keyword", ".exact", ".raw", ".untouched", ".not_analyzed"} {
		if b, ok := strings.CutSuffix(snake, suffix); ok {
			base, whole = b, true
		}
	}
	for _, suffix := range []string{".text", ".analyzed", ".lowercase"} {
		base = strings.TrimSuffix(base, suffix)
	}
	for {
		field, ok := names[base]
		if _, own := l.fields[base]; !ok && own {
			field, ok = base, base != snake
		}
		if _, own := l.fields["profile."+base]; !ok && own {
			field, ok = "profile."+base, true
		}
		if ok {
			if f := l.fields[field]; whole && f.Type == readmodel.SearchText {
				field += keywordSuffix
			}
			return field, true
		}
		unwrapped, ok := unwrapped(base)
		if !ok {
			return "", false
		}
		base = unwrapped
	}
}

// unwrapped removes the object around a field's name, or replaces that of another product by ours.
func unwrapped(name string) (string, bool) {
	first, rest, ok := strings.Cut(name, ".")
	if !ok || rest == "" {
		return "", false
	}
	switch first {
	case "profile", "person", "people", "candidate", "member", "user", "data", "record", "result",
		"document", "doc", "_source",
		"source", "basic_profile", "basics", "network", "professional_network", "linkedin", "contact", "contact_info":
		return rest, true
	case "experiences", "jobs", "job", "positions", "position", "work", "work_experience", "work_history", "employment",
		"employment_history", "employments", "employers", "past_employers",
		"roles", "career":
		return "experience." + rest, true
	case "current_job", "current_employers", "current_role", "active_experience":
		return "current_position." + rest, true
	case "schools", "school", "educations", "education_history", "studies", "education_background":
		return "education." + rest, true
	case "certification", "certificates", "certificate", "licenses", "credentials":
		return "certifications." + rest, true
	case "language":
		return "languages." + rest, true
	case "locations", "address":
		return "location." + rest, true
	}
	return "", false
}

// snakeCase converts camelCase and kebab-case to snake_case.
func snakeCase(name string) string {
	var b strings.Builder
	before := '.'
	for _, r := range name {
		switch {
		case r == '-' || r == ' ':
			r = '_'
		case unicode.IsUpper(r) && (unicode.IsLower(before) || unicode.IsDigit(before)):
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
		before = r
	}
	return b.String()
}

// closestName returns the known name closest to a misspelled one. The last part of a path must be close to that of
// the known name: a correct name of an object does not tell which field is meant.
func closestName(name string, known []string) (string, bool) {
	var near []string
	last := lastPart(name)
	for _, k := range known {
		if strings.HasSuffix(k, keywordSuffix) != strings.HasSuffix(name, keywordSuffix) {
			continue
		}
		if _, ok := suggest.Closest(last, []string{lastPart(k)}); ok {
			near = append(near, k)
		}
	}
	return suggest.Closest(name, near)
}

// lastPart returns the last part of a path, without the suffix of whole values.
func lastPart(path string) string {
	path = strings.TrimSuffix(path, keywordSuffix)
	return path[strings.LastIndexByte(path, '.')+1:]
}

// otherClauses returns replacements for clauses of older versions of Elasticsearch, and for words that are often
// mistaken for clauses.
func otherClauses() map[string]string {
	return map[string]string{
		"query":                `query is written once, around the clause: {"query": {"match_all": {}}}`,
		"filtered":             "use bool with filter, and with must for the query",
		"missing":              `use bool with must_not and exists: {"bool": {"must_not": {"exists": {"field": "profile.summary"}}}}`,
		"and":                  "use bool with must",
		"or":                   "use bool with should",
		"not":                  "use bool with must_not",
		"must":                 "use bool with must",
		"should":               "use bool with should",
		"must_not":             "use bool with must_not",
		"filter":               "use bool with filter",
		"text":                 "use match",
		"text_phrase":          "use match_phrase",
		"text_phrase_prefix":   "use match_phrase_prefix",
		"in":                   "use terms",
		"custom_score":         "use function_score",
		"custom_filters_score": "use function_score with functions",
		"custom_boost_factor":  "use function_score with weight",
		"boosting_query":       "use boosting",
		"fquery":               "use bool with filter",
		"field":                "use query_string with default_field",
		"flt":                  "use fuzzy, or match with fuzziness",
		"fuzzy_like_this":      "use fuzzy, or match with fuzziness",
		"numeric_range":        "use range",
		"limit":                "size is a field of the request",
		"indices":              "there is one index: omit it",
		"equals":               "use term",
		"contains":             "use match, or wildcard",
		"like":                 "use match, or wildcard",
		"between":              "use range",
		"gt":                   "use range", "gte": "use range", "lt": "use range", "lte": "use range",
		"all": "use match_all",
	}
}

// otherParameter returns a replacement for a parameter of an older version, if the clause has it.
func otherParameter(name string, known []string) (hint string, ok bool) {
	meant := map[string]string{
		"and": "must", "or": "should", "not": "must_not", "must-not": "must_not", "mustNot": "must_not",
		"minimum_number_should_match": "minimum_should_match", "minimumShouldMatch": "minimum_should_match",
		"min_should_match": "minimum_should_match", "filters": "filter", "include_in_score": "boost", "_boost": "boost",
		"default_op": "default_operator", "defaultOperator": "default_operator", "defaultField": "default_field",
		"default_fields": "fields", "minSimilarity": "fuzziness", "min_similarity": "fuzziness", "fuzzy_min_sim": "fuzziness",
		"max_query_terms": "max_expansions", "caseInsensitive": "case_insensitive", "ignore_case": "case_insensitive",
		"no_match_filter": "query", "score_type": "score_mode", "scoreMode": "score_mode", "order_by": "order",
		"ignore_unmapped": "unmapped_type", "reverse": "order",
	}[name]
	switch {
	case slices.Contains(known, meant):
		return "use " + strconv.Quote(meant), true
	case !slices.Contains(known, "nested"):
	case name == "nested_path":
		return `use "nested" with "path": {"nested": {"path": "experience"}}`, true
	case name == "nested_filter":
		return `use "nested" with "path" and "filter"`, true
	}
	if name == "query" && slices.Contains(known, "filter") {
		return `use "filter"`, true
	}
	return "", false
}
