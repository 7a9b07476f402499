package profile

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muster/discovery-worker/internal/people"
	"muster/schemas/identity"
)

// reliability is the probability that a recorded value is true of the record's subject. Company and
// place at a code host are free text, and may be outdated.
func reliability(platform, path string) float64 {
	switch {
	case platform == identity.Network:
		return 0.99
	case path == "current_position.company.name":
		return 0.75
	}
	return 0.95
}

// networkRecord and codehostRecord are the parts of webset records that are used.
type networkRecord struct {
	FirstName     jsontext.Value `json:"first_name"`
	MiddleName    jsontext.Value `json:"middle_name"`
	LastName      jsontext.Value `json:"last_name"`
	FullName      jsontext.Value `json:"full_name"`
	URL           jsontext.Value `json:"url"`
	Username      jsontext.Value `json:"username"`
	Headline      jsontext.Value `json:"headline"`
	Summary       jsontext.Value `json:"summary"`
	Location      place          `json:"location"`
	Position      position       `json:"current_position"`
	Experience    jsontext.Value `json:"experience"`
	Education     jsontext.Value `json:"education"`
	Certification jsontext.Value `json:"certifications"`
	Languages     jsontext.Value `json:"languages"`
	Skills        jsontext.Value `json:"skills"`
	PersonalEmail struct {
		Email jsontext.Value `json:"email"`
	} `json:"personal_email"`
}

type place struct {
	City    jsontext.Value `json:"city"`
	State   jsontext.Value `json:"state"`
	Country jsontext.Value `json:"country"`
}

type position struct {
	Summary jsontext.Value `json:"summary"`
	Start   jsontext.Value `json:"start"`
	Company struct {
		Name jsontext.Value `json:"name"`
		URL  jsontext.Value `json:"network_url"`
	} `json:"company"`
}

type codehostRecord struct {
	UserID        jsontext.Value `json:"user_id"`
	Username      jsontext.Value `json:"codehost_username"`
	URL           jsontext.Value `json:"url"`
	Bio           jsontext.Value `json:"bio"`
	FirstName     jsontext.Value `json:"first_name"`
	LastName      jsontext.Value `json:"last_name"`
	FullName      jsontext.Value `json:"full_name"`
	PersonalEmail jsontext.Value `json:"personal_email"`
	Company       jsontext.Value `json:"company"`
	Location      place          `json:"location_canonical"`
}

// fieldsOf returns the fields of a record whose subject is the person with the given confidence.
func fieldsOf(r people.Record, confidence float64) (Fields, error) {
	source := Source{Type: sourceRecord, Platform: r.Platform, Username: r.Username, UpdatedAt: r.UpdatedAt}
	out := make(Fields)
	put := func(path string, v jsontext.Value) {
		if isEmpty(v) {
			return
		}
		c := confidence
		if groupOf(path) != r.Platform { // values about the account itself are certain
			c *= reliability(r.Platform, path)
		}
		out[path] = Value{JSON: v, Confidence: round(c), Source: source}
	}
	located := func(p place) {
		put("location.city", p.City)
		put("location.state", p.State)
		put("location.country", p.Country)
	}
	switch r.Platform {
	case identity.Network:
		var n networkRecord
		if err := json.Unmarshal(r.JSON, &n); err != nil {
			return nil, err
		}
		put("first_name", n.FirstName)
		put("middle_name", n.MiddleName)
		put("last_name", n.LastName)
		put("full_name", n.FullName)
		put("personal_email", n.PersonalEmail.Email)
		put("network.url", n.URL)
		put("network.username", n.Username)
		put("network.headline", n.Headline)
		put("summary", n.Summary)
		located(n.Location)
		put("current_position.summary", n.Position.Summary)
		put("current_position.start", n.Position.Start)
		put("current_position.company.name", n.Position.Company.Name)
		put("current_position.company.network_url", n.Position.Company.URL)
		put("experience", n.Experience)
		put("education", n.Education)
		put("certifications", n.Certification)
		put("languages", n.Languages)
		put("skills", n.Skills)
	case identity.Codehost:
		var c codehostRecord
		if err := json.Unmarshal(r.JSON, &c); err != nil {
			return nil, err
		}
		put("codehost.id", c.UserID)
		put("codehost.username", c.Username)
		put("codehost.url", c.URL)
		put("codehost.bio", c.Bio)
		put("first_name", c.FirstName)
		put("last_name", c.LastName)
		put("full_name", c.FullName)
		put("personal_email", c.PersonalEmail)
		put("current_position.company.name", c.Company)
		located(c.Location)
	}
	return out, nil
}
