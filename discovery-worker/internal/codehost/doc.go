// Package codehost looks accounts up live at a code host, over the REST API that
// GitHub and its Enterprise Server have (GET /users/{username} and
// /users/{username}/social_accounts).
//
// Answers are kept with their ETag and asked for again with If-None-Match, which
// costs nothing of the rate limit when nothing has changed. An ETag holds for the
// token it was made with, so a conditional request goes out with that token.
// Several tokens share the work: the one with the most left is taken, one that is
// used up rests until its reset, and one that is refused is not used for an hour.
// When all rest, a lookup fails with a provider.RetryError that says until when.
package codehost
