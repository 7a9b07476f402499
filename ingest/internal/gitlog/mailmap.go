package gitlog

import (
	"slices"
	"strings"
)

// space is what git trims from names.
const space = " \t\r\n"

// maxMailmap bounds a .mailmap file, in bytes.
const maxMailmap = 1 << 20

// mailmap maps the names and addresses of commits to proper ones, as git does (gitmailmap(5), mailmap.c). The zero
// value maps nothing.
type mailmap struct {
	entries map[string]*mailmapEntry // by the address in commits, folded
	aliases map[string][]string      // the addresses in commits of a proper address, folded
}

// mailmapEntry is what the file says of one address in commits. The entry of the name in the commit comes first.
type mailmapEntry struct {
	email  string // as the file has it
	simple proper
	byName map[string]proper // by the name in commits, folded
}

// proper is a proper name and address, each empty if the commit's own is.
type proper struct{ name, email string }

// fold returns the form in which names and addresses are compared: ASCII letters without case, as git's strcasecmp.
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
		commitName, commitEmail, _, two := cutNameAndEmail(rest)
		if !two {
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

// cutNameAndEmail cuts "Name <address>" off a line.
func cutNameAndEmail(line string) (name, email, rest string, ok bool) {
	name, rest, ok = strings.Cut(line, "<")
	if !ok {
		return "", "", "", false
	}
	email, rest, ok = strings.Cut(rest, ">")
	return strings.Trim(name, space), email, rest, ok
}

// add enters one line. Of equal lines the last one counts; a simple line replaces only what it has.
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

// addAliases enters an address in commits as an alias of its proper address, unless several authors share it.
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

// author is the author of a commit as .mailmap has it.
type author struct {
	name, email string // proper ones
	commitEmail string
	byName      bool // .mailmap told by the name in the commit: the address alone identifies no author
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

// namesAlone reports whether .mailmap maps an address only together with names.
func (m mailmap) namesAlone(email string) bool {
	e, ok := m.entries[fold(email)]
	return ok && e.simple == proper{}
}
