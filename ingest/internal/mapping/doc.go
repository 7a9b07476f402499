// Package mapping converts source objects to records with jq programs.
//
// A [Program] is compiled once and converts one JSON object of any shape to zero or more records of
// the form {"kind": ..., "record": {...}}. Programs are files of the operator or built in ([All]).
//
// A program gets the object as its input and three variables: $file and $line, the object's
// location, and $received, the time of its reception. In addition to jq's functions it has those of
// prelude.jq and
//
//	noreply                   of a no-reply address of the code host: {user_id, username}, user_id null
//	                          if the address does not contain it; otherwise null
//	profile_username($p)      the username in a profile URL of platform $p, otherwise null
//	company_slug              the slug in a company URL of the professional network, otherwise null
//	iso_date                  a date in any form of ISO 8601 in RFC 3339 format, otherwise null
//	unix_time                 the Unix time of a date in seconds; it fails for an invalid date
//
// A program that begins with module {"input": "json-ld"}; gets the nodes that package jsonld
// returns for each document.
//
// A program cannot access files, the environment or other inputs.
//
// Time, number of records and their total size are limited per object ([Limits]). An error concerns
// one object only: it is a *record.ValidationError, and no record of that object is used. A Program is safe
// for concurrent use.
package mapping
