// Package page serves the status page of an instance on the admin port: an HTML page that polls
// a JSON document every few seconds. Expensive parts are read once for all viewers, and only on
// request. If a part cannot be read, the document names the problem and has the rest.
package page
