// Package openapitest checks the HTTP exchanges of tests against the OpenAPI document, and
// reports its parts that no exchange has covered.
//
//	checker, err := openapitest.New()
//	client := &http.Client{Transport: checker.Transport(base, nil)}
//	// ... the tests ...
//	missing := checker.Missing()
//
// For every exchange it checks that path and status are documented, and the headers and body of the
// response. If the response is a success, it checks the request as well. A Checker is safe for
// concurrent use. It is for tests only.
package openapitest
