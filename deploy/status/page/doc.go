// Package page serves the status of an instance for people, on the admin port:
// one page that asks for a JSON document every few seconds. What is dear to read
// is read once for all who look, and only while somebody does; what cannot be
// read is named and the rest is shown.
package page
