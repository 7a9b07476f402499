package identity

import "strings"

// Host is a host under which a platform's profiles are found, for a search that
// is restricted to it: the last of its list that is no pattern and no subdomain
// of another, since the first are reserved names; "" for an unknown platform.
func (p *Platforms) Host(platform string) string {
	host := ""
	for _, entry := range p.list {
		if entry.Name != platform {
			continue
		}
		for _, h := range entry.Hosts {
			if !strings.HasPrefix(h, "*.") && !strings.HasPrefix(h, "m.") && !strings.HasPrefix(h, "mobile.") {
				host = h
			}
		}
	}
	return host
}
