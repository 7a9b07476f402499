package engine

import "net/url"

func serviceDSN(user, password, addr, database string) string {
	u := url.URL{Scheme: "http", User: url.UserPassword(user, password), Host: addr, Path: "/" + database}
	return u.String()
}
