package gitlog

import (
	"slices"
	"strings"
)

// space is the set of characters that git trims from names.
const space = " \t\r\n"

// maxMailmap is the maximum size of a .mailmap file in bytes.
const maxMailmap = 1 << 20

// mailmap maps the names and addresses in commits to proper ones, like git (gitmailmap(5),
// mailmap.c). The zero value maps nothing.
type mailmap struct {
	entries map[string]*mailmapEntry // by commit address, folded
	aliases map[string][]string      // commit addresses by proper address, folded
}

// mailmapEntry has the mappings of one commit address. A mapping by name takes precedence.
type mailmapEntry struct {
	email  string // as written in the file
	simple proper
	byName map[string]proper // by commit name, folded
}

// proper is a proper name and address. An empty field keeps the commit's value.
type proper struct{ name, email string }

// fold normalizes names and addresses for comparison: ASCII letters in lower case, like git's strcasecmp.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

func parseMailmap(text string) mailmap {
	m := mailmap{entries: map[string]*mailmapEntry{}, aliases: map[string][]string{}}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, email, rest, ok := cutNameAndEmail(line)
		if !ok || email == "" {
			continue
		}
		commitName, commitEmail, _, hasTwo := cutNameAndEmail(rest)
		if !hasTwo {
			email, commitEmail = "", email
		}
		m.add(proper{name, email}, commitName, commitEmail)
	}
	for commit, e := range m.entries {
		m.addAliases(commit, e)
	}
	for _, list := range m.aliases {
		slices.Sort(list)
	}
	return m
}

// cutNameAndEmail cuts "Name <address>" from the start of a line.
func cutNameAndEmail(line string) (name, email, rest string, ok bool) {
	name, rest, ok = strings.Cut(line, "<")
	if !ok {
		return "", "", "", false
	}
	email, rest, ok = strings.Cut(rest, ">")
	return strings.Trim(name, space), email, rest, ok
}

// add adds one line. The last of equal lines wins; a simple line replaces only the parts that it has.
func (m mailmap) add(to proper, name, email string) {
	key := fold(email)
	e, ok := m.entries[key]
	if !ok {
		e = &mailmapEntry{email: email, byName: map[string]proper{}}
		m.entries[key] = e
	}
	if name != "" {
		e.byName[fold(name)] = to
		return
	}
	if to.name != "" {
		e.simple.name = to.name
	}
	if to.email != "" {
		e.simple.email = to.email
	}
}

// addAliases adds a commit address as an alias of its proper address, unless several authors share it.
func (m mailmap) addAliases(commit string, e *mailmapEntry) {
	targets := map[string]bool{}
	if e.simple.email != "" {
		targets[fold(e.simple.email)] = true
	} else if e.simple.name != "" {
		targets[commit] = true
	}
	for _, p := range e.byName {
		targets[fold(p.email)] = true
	}
	for target := range targets {
		if len(targets) == 1 && target != commit {
			m.aliases[target] = append(m.aliases[target], e.email)
		}
	}
}

// author is the author of a commit after applying .mailmap.
type author struct {
	name, email string // proper ones
	commitEmail string
	byName      bool // mapped by the name in the commit: the address alone identifies no author
}

// lookup returns the author of a commit.
func (m mailmap) lookup(s signature) author {
	a := author{name: s.name, email: s.email, commitEmail: s.email}
	e, ok := m.entries[fold(s.email)]
	if !ok {
		return a
	}
	to, byName := e.byName[fold(s.name)]
	if !byName {
		to = e.simple
	}
	a.byName = byName
	if to.name != "" {
		a.name = to.name
	}
	if to.email != "" {
		a.email = to.email
	}
	return a
}

// requiresName reports whether .mailmap maps an address only together with names.
func (m mailmap) requiresName(email string) bool {
	e, ok := m.entries[fold(email)]
	return ok && e.simple == proper{}
}
