// Package post makes one HTTP call to an untrusted webhook receiver.
//
// It sends the exact bytes once and returns the result, within a time limit. It reads only the
// beginning of the response, follows no redirect and uses no proxy. It checks each address after
// resolving, when it dials: loopback, private, link-local, cloud metadata and carrier-grade NAT
// addresses, in every translated form, are rejected unless the operator allowed them. Plain HTTP
// goes to allowed addresses only. Excerpts of responses are short and redacted.
package post
