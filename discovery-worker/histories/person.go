package histories

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"muster/schemas/identity"
)

// person is a cluster of addresses that belong together by account ID, address or .mailmap.
type person struct {
	ids      map[int64]bool
	username string    // of the newest no-reply address
	seen     time.Time // of that commit
	// accountNames are the author names at no-reply addresses, names those at all addresses and of
	// .mailmap, with their numbers of commits.
	accountNames, names map[string]int
	companies           map[string]int // hosts of the other addresses
	commits             []commit       // the newest at no-reply addresses, newest first
}

// maxOwnCommits is the number of commits that an account gets.
const maxOwnCommits = 10

// clusters collects people from commits.
type clusters struct {
	platforms *identity.Platforms
	hosts     []string // further code hosts with no-reply addresses
	parent    map[string]string
	commits   []commit // one for each name and address, with their count
	counts    map[[4]string]int
	newest    map[int64][]commit // by account, newest first
}

func newClusters(hosts []string) *clusters {
	return &clusters{platforms: identity.Default(), hosts: hosts, parent: make(map[string]string),
		counts: make(map[[4]string]int), newest: make(map[int64][]commit)}
}

// add adds a commit. Commits of bots are ignored.
func (c *clusters) add(k commit) {
	id, username, ok := c.noReply(k.address)
	if strings.HasSuffix(username, "[bot]") || strings.HasSuffix(k.name, "[bot]") {
		return
	}
	if ok && id > 0 {
		list := append(c.newest[id], k)
		slices.SortStableFunc(list, func(a, b commit) int {
			return cmp.Or(b.at.Compare(a.at), strings.Compare(a.sha, b.sha))
		})
		c.newest[id] = list[:min(len(list), maxOwnCommits)]
	}
	key := [4]string{k.name, k.address, k.proper, k.mailbox}
	if c.counts[key]++; c.counts[key] > 1 {
		return
	}
	c.commits = append(c.commits, k)
	c.union(k.address, k.mailbox)
}

func (c *clusters) noReply(address string) (id int64, username string, ok bool) {
	return c.platforms.NoReply(address, c.hosts...)
}

// nodeOf returns the node of an address. The no-reply addresses of an account share one.
func (c *clusters) nodeOf(address string) string {
	if id, _, ok := c.noReply(address); ok && id > 0 {
		return "id " + itoa(id)
	}
	return address
}

func (c *clusters) find(node string) string {
	for {
		up, have := c.parent[node]
		if !have || up == node {
			return node
		}
		if further, have := c.parent[up]; have {
			c.parent[node] = further
		}
		node = up
	}
}

func (c *clusters) union(a, b string) {
	a, b = c.find(c.nodeOf(a)), c.find(c.nodeOf(b))
	if b < a {
		a, b = b, a
	}
	if a != b {
		c.parent[b] = a
	}
}

// people returns the people with exactly one account, by its ID. Clusters with several accounts are
// no ground truth.
func (c *clusters) people() (list []*person, ambiguous int) {
	byRoot := make(map[string]*person)
	for _, k := range c.commits {
		root := c.find(c.nodeOf(k.address))
		p := byRoot[root]
		if p == nil {
			p = &person{ids: make(map[int64]bool), accountNames: make(map[string]int), names: make(map[string]int),
				companies: make(map[string]int)}
			byRoot[root] = p
		}
		n := c.counts[[4]string{k.name, k.address, k.proper, k.mailbox}]
		p.names[k.name] += n
		if k.proper != k.name {
			p.names[k.proper] += n
		}
		id, username, ok := c.noReply(k.address)
		switch {
		case ok && id > 0:
			p.ids[id] = true
			p.accountNames[k.name] += n
			if !k.at.Before(p.seen) {
				p.username, p.seen = username, k.at
			}
		case !ok:
			if _, host, found := strings.Cut(k.address, "@"); found {
				p.companies[host] += n
			}
		}
	}
	for _, root := range slices.Sorted(maps.Keys(byRoot)) {
		switch p := byRoot[root]; len(p.ids) {
		case 0:
		case 1:
			for id := range p.ids {
				p.commits = c.newest[id]
			}
			list = append(list, p)
		default:
			ambiguous++
		}
	}
	slices.SortFunc(list, func(a, b *person) int { return cmp.Compare(a.id(), b.id()) })
	return list, ambiguous
}

func (p *person) id() int64 {
	for id := range p.ids {
		return id
	}
	return 0
}

// mostUsed returns names by number of commits, then by value.
func mostUsed(names map[string]int) []string {
	return slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(names[b], names[a]), strings.Compare(a, b))
	})
}

// fullNames returns the names with two and more parts, the most used first.
func (p *person) fullNames() []string {
	return slices.DeleteFunc(mostUsed(p.names), func(name string) bool {
		return len(name) > 80 || strings.ContainsAny(name, "@/\\<>") ||
			len(identity.NameTokens(name)) < 2 || len(identity.NameBlockingKeys(name)) == 0
	})
}

// employers returns the companies that at least two people have addresses of, by person.
func employers(people []*person) map[*person]string {
	users := make(map[string]int)
	domains := make(map[*person][]string, len(people))
	for _, p := range people {
		for _, host := range mostUsed(p.companies) {
			domain, err := publicsuffix.EffectiveTLDPlusOne(host)
			if err != nil || isMailService(domain) || slices.Contains(domains[p], domain) {
				continue
			}
			domains[p] = append(domains[p], domain)
			users[domain]++
		}
	}
	out := make(map[*person]string)
	for p, list := range domains {
		for _, d := range list {
			if users[d] >= 2 {
				name, _, _ := strings.Cut(d, ".")
				out[p] = strings.ToUpper(name[:1]) + name[1:]
				break
			}
		}
	}
	return out
}

// isMailService reports whether a domain belongs to a mail service for everyone, or is no domain of
// an employer for another reason.
func isMailService(domain string) bool {
	name, _, _ := strings.Cut(domain, ".")
	switch name {
	case "gmail", "googlemail", "hotmail", "outlook", "live", "msn", "yahoo", "ymail", "icloud", "me", "mac", "aol",
		"qq", "163", "126", "139", "foxmail", "sina", "sohu", "yeah", "aliyun", "naver", "daum", "hanmail", "kakao",
		"gmx", "web", "t-online", "posteo", "mailbox", "freenet", "orange", "free", "laposte", "wanadoo", "libero",
		"mail", "yandex", "ya", "rambler", "bk", "list", "inbox", "seznam", "protonmail", "proton", "pm", "tutanota",
		"tutamail", "fastmail", "hey", "zoho", "rediffmail", "duck", "riseup", "github", "gitlab", "localhost",
		"example", "comcast", "uol", "bol", "terra", "wp", "o2", "interia", "onet", "abv", "ukr", "noreply":
		return true
	}
	return false
}
