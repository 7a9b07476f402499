package identity

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// Names of the platforms (rulings.md, Names).
const (
	Codehost  = "codehost"
	Network   = "network"
	Microblog = "microblog"
)

// PlatformNames returns the known platforms, in a fixed order.
func PlatformNames() []string { return []string{Codehost, Network, Microblog} }

// KnownPlatform reports whether name is a known platform.
func KnownPlatform(name string) bool {
	return name == Codehost || name == Network || name == Microblog
}

//go:embed platforms.json
var defaultPlatforms string

// Platforms maps URLs to accounts. It is immutable.
type Platforms struct {
	list []platform
}

// platform is one entry of platforms.json.
type platform struct {
	// Name is one of PlatformNames.
	Name string `json:"name"`
	// Hosts are lower-case host names; "*.x" matches every subdomain of x. A leading "www." is ignored.
	Hosts []string `json:"hosts"`
	// Link is the URL of an account in responses.
	Link string `json:"link"`
	// Person and Company are URL paths. A segment "{...}" is the name; a last segment "*" matches one or more
	// further segments.
	Person  []string `json:"person"`
	Company []string `json:"company"`
	// Reserved are paths of pages of the platform in the position of a person's name.
	Reserved []string `json:"reserved,omitempty"`

	person, company []shape
}

// shape is a parsed URL path.
type shape struct {
	literals []string // "" for the name
	open     bool     // ends in "*"
}

// Default returns the built-in platforms.
func Default() *Platforms {
	p, err := Load(strings.NewReader(defaultPlatforms))
	if err != nil {
		panic("identity: embedded platforms.json: " + err.Error()) // A test loads it.
	}
	return p
}

// Load reads platforms from JSON in the form of platforms.json. Every known platform must be given once.
// Hosts must be lower case and belong to one platform only.
func Load(r io.Reader) (*Platforms, error) {
	var file struct {
		Platforms []platform `json:"platforms"`
	}
	if err := json.UnmarshalRead(r, &file, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("read platforms: %w", err)
	}
	seen := map[string]bool{}
	owner := map[string]string{}
	for i := range file.Platforms {
		p := &file.Platforms[i]
		switch {
		case !KnownPlatform(p.Name):
			return nil, fmt.Errorf("read platforms: unknown platform %q", p.Name)
		case seen[p.Name]:
			return nil, fmt.Errorf("read platforms: platform %q given twice", p.Name)
		case len(p.Hosts) == 0 || len(p.Person) == 0:
			return nil, fmt.Errorf("read platforms: platform %q needs hosts and person paths", p.Name)
		case !strings.Contains(p.Link, "{username}"):
			return nil, fmt.Errorf("read platforms: link of platform %q needs {username}", p.Name)
		}
		seen[p.Name] = true
		for _, h := range p.Hosts {
			if h == "" || h != strings.ToLower(h) || strings.ContainsAny(h, "/:@ ") {
				return nil, fmt.Errorf("read platforms: platform %q: bad host %q", p.Name, h)
			}
			if other, taken := owner[h]; taken {
				return nil, fmt.Errorf("read platforms: host %q belongs to %q and %q", h, other, p.Name)
			}
			owner[h] = p.Name
		}
		var err error
		if p.person, err = parseShapes(p.Person); err != nil {
			return nil, fmt.Errorf("read platforms: platform %q: person: %w", p.Name, err)
		}
		if p.company, err = parseShapes(p.Company); err != nil {
			return nil, fmt.Errorf("read platforms: platform %q: company: %w", p.Name, err)
		}
	}
	for _, name := range PlatformNames() {
		if !seen[name] {
			return nil, fmt.Errorf("read platforms: platform %q is missing", name)
		}
	}
	return &Platforms{list: file.Platforms}, nil
}

func parseShapes(paths []string) ([]shape, error) {
	shapes := make([]shape, 0, len(paths))
	for _, path := range paths {
		rest, ok := strings.CutPrefix(path, "/")
		if !ok {
			return nil, fmt.Errorf("path %q must begin with /", path)
		}
		var s shape
		rest, s.open = strings.CutSuffix(rest, "/*")
		names := 0
		for segment := range strings.SplitSeq(rest, "/") {
			if strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "}") {
				names++
				segment = ""
			} else if segment == "" || strings.ContainsAny(segment, "{}*") || segment != strings.ToLower(segment) {
				return nil, fmt.Errorf("path %q has a bad segment %q", path, segment)
			}
			s.literals = append(s.literals, segment)
		}
		if names != 1 {
			return nil, fmt.Errorf("path %q must have one {name}", path)
		}
		shapes = append(shapes, s)
	}
	return shapes, nil
}

// match returns the name in path, which must be split at slashes and decoded.
func match(shapes []shape, path []string) (string, bool) {
	for _, s := range shapes {
		if len(path) != len(s.literals) && (!s.open || len(path) <= len(s.literals)) {
			continue
		}
		name, ok := "", true
		for i, literal := range s.literals {
			if literal == "" {
				name = path[i]
			} else if !strings.EqualFold(literal, path[i]) {
				ok = false
				break
			}
		}
		if ok {
			return name, true
		}
	}
	return "", false
}

// find returns the platform of a lower-case host.
func (p *Platforms) find(host string) *platform {
	host = strings.TrimPrefix(host, "www.")
	for i := range p.list {
		for _, h := range p.list[i].Hosts {
			if parent, wild := strings.CutPrefix(h, "*"); wild && len(host) > len(parent) &&
				strings.HasSuffix(host, parent) || h == host {
				return &p.list[i]
			}
		}
	}
	return nil
}

// Link returns the URL of an account as in responses (interface.md, "Discovered social"), and "" for an
// unknown platform.
func (p *Platforms) Link(platformName, username string) string {
	i := slices.IndexFunc(p.list, func(q platform) bool { return q.Name == platformName })
	if i < 0 {
		return ""
	}
	return strings.ReplaceAll(p.list[i].Link, "{username}", escapeSegment(username))
}
