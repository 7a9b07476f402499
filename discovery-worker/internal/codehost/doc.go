// Package codehost looks up accounts live at a code host, with the REST API of GitHub and GitHub
// Enterprise Server (GET /users/{username} and /users/{username}/social_accounts).
//
// Responses are cached with their ETag and revalidated with If-None-Match, which does not count
// against the rate limit if nothing has changed. An ETag is valid for the token that received it,
// so a conditional request uses the same token. Of several tokens, the one with the highest
// remaining limit is used. An exhausted token pauses until its reset, a rejected one for an hour.
// If all tokens are paused, a lookup returns a provider.RetryError with the time to wait.
package codehost
