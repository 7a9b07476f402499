package readstore

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/readmodel"
	"muster/schemas/record"
)

// Responses are assembled from stored fragments of JSON objects, which neither start nor end with a comma. Nothing is
// decoded.

// appendMembers appends a fragment, preceded by a comma if needed.
func appendMembers(b []byte, fragment string) []byte {
	if fragment == "" {
		return b
	}
	return append(comma(b), fragment...)
}

// appendString appends a member with a string value.
func appendString(b []byte, name, value string) []byte {
	b = appendName(b, name)
	// An error means invalid UTF-8, which is replaced; stored strings were validated at ingest.
	b, _ = jsontext.AppendQuote(b, value)
	return b
}

// appendInstant appends a member with a version as an RFC 3339 timestamp in UTC.
func appendInstant(b []byte, name string, version int64) []byte {
	b = append(appendName(b, name), '"')
	return append(record.Version(version).Observed().Time().AppendFormat(b, time.RFC3339Nano), '"')
}

func appendName(b []byte, name string) []byte {
	b = append(comma(b), '"')
	b = append(b, name...)
	return append(b, `":`...)
}

// comma appends a comma, except at the start of an object or array.
func comma(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] != '{' && b[n-1] != '[' {
		return append(b, ',')
	}
	return b
}

// appendEnrichedCodehost appends person.codehost (MAPPING.md, 3.1). other is the record that the followed link leads
// to; nil if there is none.
func appendEnrichedCodehost(
	b []byte, r *readmodel.AnswerRow, other *readmodel.NetworkPersonRow, by *discoveredLink,
) []byte {
	b = r.AppendAccount(append(b, '{'), readmodel.ShapeEnrich, linkedNames(other)...)
	networkUsername := r.NetworkUsername
	if networkUsername == "" && other != nil {
		networkUsername = other.Username
	}
	if networkUsername != "" {
		b = appendString(b, "network_username", networkUsername)
	}
	b = r.AppendEntries(b, readmodel.ShapeEnrich)
	b = appendDiscovered(b, by)
	b = appendInstant(b, "last_updated", r.Version)
	return append(b, '}')
}

// appendEnrichedNetwork appends person.network (MAPPING.md, 3.3).
func appendEnrichedNetwork(b []byte, r *readmodel.NetworkPersonRow, by *discoveredLink) []byte {
	b = append(b, '{')
	b = r.Append(b, readmodel.ShapeEnrich, false)
	b = appendDiscovered(b, by)
	b = appendInstant(b, "updated_at", r.Version)
	return append(b, '}')
}

// appendCompany appends company (MAPPING.md, 4.1).
func appendCompany(b []byte, r *readmodel.CompanyRow) []byte {
	b = append(b, '{')
	b = appendMembers(b, r.Company)
	b = appendInstant(b, "last_updated", r.Version)
	return append(b, '}')
}

// appendNetworkPerson appends a record of the network webset (MAPPING.md, section 6). email enables the add-on
// personal_email; addon is the record of the add-on codehost, or nil.
func appendNetworkPerson(
	b []byte, r *readmodel.NetworkPersonRow, email bool, addon *readmodel.AnswerRow, by *discoveredLink,
) []byte {
	b = append(b, '{')
	shape := readmodel.ShapeWebset
	if email {
		shape = readmodel.ShapeOpen
	}
	b = r.Append(b, shape, email)
	if addon != nil {
		if !email {
			shape = readmodel.ShapeAddon
		}
		b = append(appendName(b, "codehost"), '{')
		b = addon.AppendEntries(addon.AppendAccount(b, shape), shape)
		b = appendDiscovered(b, by)
		b = append(appendInstant(b, "last_updated", addon.Version), '}')
	}
	b = appendInstant(b, "last_updated", r.Version)
	return append(b, '}')
}

// linkedNames returns the names that the linked record adds to those of an account.
func linkedNames(other *readmodel.NetworkPersonRow) []string {
	if other == nil {
		return nil
	}
	return []string{other.FullName}
}

// appendCodehostPerson appends a record of the codehost webset (MAPPING.md, section 7). other is the record that the
// followed link leads to, or nil. network enables the add-on network, which returns that record.
func appendCodehostPerson(
	b []byte, r *readmodel.AnswerRow, other *readmodel.NetworkPersonRow, network bool, by *discoveredLink,
) []byte {
	b = r.AppendAccount(append(b, '{'), readmodel.ShapeWebset, linkedNames(other)...)
	b = r.AppendEntries(b, readmodel.ShapeWebset)
	if network && other != nil {
		b = append(appendName(b, "network"), '{')
		b = append(appendDiscovered(other.Append(b, readmodel.ShapeAddon, false), by), '}')
	}
	b = appendInstant(b, "last_updated", r.Version)
	return append(b, '}')
}
