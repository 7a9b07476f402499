// Package descriptiontest holds the HTTP exchanges of tests against the API
// description, and tells what of the description no exchange has met.
//
//	checker, err := descriptiontest.New()
//	client := &http.Client{Transport: checker.Transport(base, nil)}
//	// ... the tests ...
//	missing := checker.Missing()
//
// Every exchange is checked: that the path and the status are described, the
// response's headers and body in full, and the request whenever the answer says
// that it was right. A Checker is safe for concurrent use. For tests only.
package descriptiontest
