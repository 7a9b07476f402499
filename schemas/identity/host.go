package identity

import "strings"

// Host returns a host for searches restricted to a platform: the last of its list that is neither a pattern
// nor a subdomain of another, since the first ones are reserved names. It returns "" for an unknown platform.
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
