// Package mapping makes records of foreign objects with programs in the language
// of jq.
//
// Its one job: a [Program], compiled once, turns one JSON object of any shape into
// zero or more records of the form {"kind": ..., "record": {...}}. Programs are an
// operator's files, or one of those that are shipped ([All]).
//
// A program sees the object as its input and three variables: $file and $line, the
// object's place, and $received, the time of its reception. Beside jq's own
// functions it has those of prelude.jq and
//
//	noreply                   of a no-reply address of the code host: {user_id, username}, user_id null
//	                          when the address does not reveal it; else null
//	profile_username($p)      the username in a profile URL of platform $p, else null
//	company_slug              the slug in a company's URL of the professional network, else null
//	iso_date                  a date in any form of ISO 8601 as RFC 3339 writes it, else null
//	unix_time                 the seconds since 1970 of a date, which fails for what is none
//
// A program that begins with module {"input": "json-ld"}; gets what package jsonld makes of each document.
//
// It reaches no file, no environment and no other input.
//
// Limits: a deadline for each object, a number of records, and a number of bytes of
// them. Whatever fails concerns the one object: the error is a *record.Invalid, and
// of that object nothing is used. A Program is safe for concurrent use.
package mapping
