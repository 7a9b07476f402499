package resolution_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/resolution"
)

const (
	codehost = resolution.Codehost
	network  = resolution.Network
)

// record parses a row "name version [emails] [> declared]": its identity is "<webset>-<name>", or the number of a
// codehost account.
func record(w resolution.Webset, text string) resolution.Record {
	head, declares, _ := strings.Cut(text, ">")
	fields := strings.Fields(head)
	updated, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		panic(err)
	}
	return resolution.Record{
		Webset: w, Identity: fields[0], Username: fields[0], Updated: updated,
		Emails: fields[2:], Declares: strings.Fields(declares),
	}
}

// rows parses records, one per line: "c name ..." and "n name ...". A line "= c n confidence" is an account-link,
// "~ c n confidence" a guessed one, and "? c n confidence" a discovery result.
func rows(text string) resolution.Rows {
	var out resolution.Rows
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		f := strings.Fields(rest)
		switch kind {
		case "c":
			out.Records = append(out.Records, record(codehost, rest))
		case "n":
			out.Records = append(out.Records, record(network, rest))
		case "=", "~", "?":
			confidence, err := strconv.ParseFloat(f[2], 64)
			if err != nil {
				panic(err)
			}
			if kind != "?" {
				out.AccountLinks = append(out.AccountLinks, resolution.AccountLink{
					Usernames: [2]string{f[0], f[1]}, Declared: kind == "=", Confidence: confidence, Observed: 1,
				})
				continue
			}
			d := resolution.Discovered{Confidence: confidence}
			for w, name := range f[:2] {
				d.Accounts[w] = resolution.Account{Username: name, Identity: strings.TrimPrefix(name, "unknown-")}
				if strings.HasPrefix(name, "unknown-") {
					d.Accounts[w].Identity = ""
				}
			}
			out.Discovered = append(out.Discovered, d)
		}
	}
	return out
}

// query parses "c=name n=name e=address", preceded by the websets "c", "n" or "cn".
func query(text string) resolution.Query {
	f := strings.Fields(text)
	q := resolution.Query{Requested: [2]bool{strings.Contains(f[0], "c"), strings.Contains(f[0], "n")}}
	for _, id := range f[1:] {
		switch name, value, _ := strings.Cut(id, "="); name {
		case "c":
			q.Usernames[codehost] = value
		case "n":
			q.Usernames[network] = value
		case "e":
			q.Emails = append(q.Emails, value)
		}
	}
	return q
}

// answer formats matches as "codehost/network", "-" for a miss.
func answer(m [2]resolution.Match) string {
	out := [2]string{"-", "-"}
	for w := range m {
		if m[w].Record != nil {
			out[w] = m[w].Record.Identity
		}
	}
	return out[0] + "/" + out[1]
}

func TestResolve_FollowsTheRulings(t *testing.T) {
	contract := `
		c lin-code 5 lin@tamm.example
		n lin-net 5 lin@tamm.example
		c ode-code 5 shared@raud.example
		n ode-net 5 shared@raud.example
		c rae-code 5 rae@kask.example > rae-net
		n rae-net 5
		c sol-code 5 sol@ilves.example
		n sol-net 5 > sol-code
		c other-code 5
		n stranger-net 5 stranger@lone.example
		c una-code 5 una@oja.example
		n una-net 5 una@oja.example > not-crawled`
	more := `
		c old 1 shared@x
		c new 2 shared@x
		n old-net 1 shared@x
		n new-net 2 shared@x > new
		c claimer 9 chain@x > claimed
		n claimed 1 > claimant
		c claimant 1
		c linked 1
		n linked-net 1
		= linked linked-net 1
		n two 1 two@x > two-a two-b
		c two-a 2
		c two-b 3 two@x
		c twin 1
		c 10 5 ten@x
		c 9 5 ten@x
		n weak-net 1
		c weak 1 weak@x
		~ weak weak-net 0.95
		n found-net 1 found@x
		c found 1
		? found found-net 0.93
		? unknown-ghost found-net 0.91
		c ghost-back 1
		n taken-net 1 > taken
		c taken 1
		c liar 1
		? liar taken-net 0.99
		n idn-net 1 me@xn--x`
	for _, tt := range []struct{ name, rows, query, want string }{
		// The cases of the contract.
		{"two identifiers, one webset", contract, "n c=lin-code n=lin-net", "-/lin-net"},
		{"reverse", contract, "c c=lin-code n=lin-net", "lin-code/-"},
		{"two identifiers, both websets", contract, "cn c=lin-code n=lin-net", "lin-code/lin-net"},
		{"e-mail for the missing webset", contract, "cn c=lin-code e=lin@tamm.example", "lin-code/lin-net"},
		{"e-mail next to an identifier of another webset", contract, "c n=lin-net e=lin@tamm.example", "lin-code/-"},
		{"no record for the identifier", contract, "c c=missing n=lin-net e=lin@tamm.example", "lin-code/-"},
		{"e-mail alone", contract, "cn e=lin@tamm.example", "lin-code/lin-net"},
		{"link, not the caller's word", contract, "cn c=rae-code n=stranger-net", "rae-code/rae-net"},
		{"the network record declares", contract, "cn c=other-code n=sol-net", "other-code/-"},
		{"link before e-mail", contract, "cn c=rae-code e=stranger@lone.example", "rae-code/rae-net"},
		{"link from a webset that is not requested", contract, "c n=rae-net", "rae-code/-"},
		{"the same with an identifier without a record", contract, "c c=missing n=rae-net", "rae-code/-"},
		{"link declared by the other side", contract, "n c=sol-code", "-/sol-net"},
		{"declared link contradicts the e-mail", contract, "cn n=una-net e=una@oja.example", "-/una-net"},
		{"two strangers, nothing declared", contract, "cn c=other-code e=stranger@lone.example",
			"other-code/stranger-net"},
		// Inputs of the same kinds.
		{"nothing given matches", contract, "cn c=missing n=missing e=missing@x", "-/-"},
		{"the link of the record that the e-mail found", contract, "cn e=rae@kask.example", "rae-code/rae-net"},
		{"the same without requesting that record's webset", contract, "n e=rae@kask.example", "-/rae-net"},
		{"e-mail shared by two websets", contract, "cn e=shared@raud.example", "ode-code/ode-net"},
		{"contradicting e-mail holders: the code host stays", contract, "cn e=una@oja.example", "una-code/-"},
		{"own identifier stays before an e-mail holder", contract, "cn c=una-code e=una@oja.example", "una-code/-"},
		{"an identifier more does not empty", contract, "cn c=missing n=una-net e=una@oja.example", "-/una-net"},
		{"a record that is not requested drops nothing", contract, "c n=una-net e=una@oja.example", "una-code/-"},
		{"declared by the other side: a stranger is dropped", contract, "cn c=sol-code n=stranger-net",
			"sol-code/sol-net"},
		{"e-mail of a stranger next to a declared link", contract, "cn c=sol-code e=stranger@lone.example",
			"sol-code/sol-net"},
		{"two strangers by their identifiers", contract, "cn c=lin-code n=stranger-net", "lin-code/stranger-net"},
		{"the linked record wins over the identifier of equal rank", contract, "cn c=rae-code n=lin-net",
			"rae-code/rae-net"},
		{"the network identifier's link", contract, "cn n=sol-net", "sol-code/sol-net"},
		{"dropped by its identifier, then by e-mail", contract, "cn c=lin-code n=sol-net e=lin@tamm.example",
			"lin-code/lin-net"},
		// Shared addresses and contradicting declarations.
		{"shared e-mail: the most recently updated", more, "c e=shared@x", "new/-"},
		{"shared e-mail in both websets", more, "cn e=shared@x", "new/new-net"},
		{"the newest holder contradicts: the next one", more, "cn c=old e=shared@x", "old/old-net"},
		{"equally new holders go by the number", more, "c e=ten@x", "9/-"},
		{"a claim that the claimed record denies", more, "cn c=claimer", "claimer/-"},
		{"the record's own declaration counts", more, "cn n=claimed", "claimant/claimed"},
		{"a claim by e-mail", more, "cn e=chain@x", "claimer/-"},
		{"account-link, both ways", more, "cn c=linked", "linked/linked-net"},
		{"account-link backwards", more, "c n=linked-net", "linked/-"},
		{"account-link contradicts a stranger", more, "cn c=linked n=weak-net", "linked/linked-net"},
		{"one of two declared accounts", more, "cn c=two-a n=two", "two-a/two"},
		{"the second of the two", more, "cn c=two-b n=two", "two-b/two"},
		{"of two declared ones the newest statement, then the smallest identity", more, "c n=two", "two-a/-"},
		{"a guessed account-link is followed", more, "cn c=weak", "weak/weak-net"},
		{"a guessed account-link contradicts nothing", more, "cn c=weak n=found-net", "weak/found-net"},
		{"discovered link", more, "cn c=found", "found/found-net"},
		{"discovered link from the other side", more, "cn n=found-net", "found/found-net"},
		{"discovered link before e-mail", more, "cn c=found e=weak@x", "found/found-net"},
		{"discovered link of an e-mail holder", more, "c e=found@x", "found/-"},
		{"discovered link of an account without a record", more, "n c=unknown-ghost", "-/found-net"},
		{"discovered link that a declared one denies", more, "cn c=liar", "liar/-"},
		{"another form of the address", more, "n e=me@x e=me@xn--x", "-/idn-net"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			facts := rows(tt.rows)
			require.Equal(t, tt.want, answer(resolution.Resolve(query(tt.query), facts)))
			slices.Reverse(facts.Records)
			slices.Reverse(facts.AccountLinks)
			slices.Reverse(facts.Discovered)
			require.Equal(t, tt.want, answer(resolution.Resolve(query(tt.query), facts)), "in another order")
		})
	}
}

// draw returns random rows with few names, so that many are related.
func draw(r *rand.Rand) resolution.Rows {
	var out resolution.Rows
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	name := func() string { return pick("a", "b", "c") }
	for _, w := range []resolution.Webset{codehost, network} {
		for i := range r.IntN(5) {
			record := resolution.Record{Webset: w, Identity: strconv.Itoa(i), Username: name(), Updated: r.Int64N(3)}
			for range r.IntN(3) {
				record.Emails = append(record.Emails, pick("x@x", "y@x"))
			}
			for range max(0, r.IntN(4)-2) {
				record.Declares = append(record.Declares, name())
			}
			out.Records = append(out.Records, record)
		}
	}
	for range max(0, r.IntN(4)-2) {
		out.AccountLinks = append(out.AccountLinks, resolution.AccountLink{
			Usernames: [2]string{name(), name()}, Declared: r.IntN(2) == 0, Confidence: 0.9 + float64(r.IntN(2))/10,
		})
	}
	for range max(0, r.IntN(4)-2) {
		d := resolution.Discovered{Confidence: 0.9 + r.Float64()/10}
		for w := range d.Accounts {
			d.Accounts[w] = resolution.Account{Username: name(), Identity: pick("", "0", "1")}
		}
		out.Discovered = append(out.Discovered, d)
	}
	return out
}

// drawQuery returns a query with any of the identifiers.
func drawQuery(r *rand.Rand) resolution.Query {
	q := resolution.Query{Requested: [][2]bool{{true, false}, {false, true}, {true, true}}[r.IntN(3)]}
	for w := range q.Usernames {
		q.Usernames[w] = []string{"", "a", "b", "c", "missing"}[r.IntN(5)]
	}
	if e := r.IntN(3); e > 0 {
		q.Emails = []string{"z@x", "x@x", "y@x"}[e-1 : e+1]
	}
	return q
}

func TestResolve_MoreIdentifiersNeverLoseAMatch(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		facts, q := draw(r), drawQuery(r)
		full := resolution.Resolve(q, facts)
		for _, less := range []func(*resolution.Query){
			func(q *resolution.Query) { q.Usernames[codehost] = "" },
			func(q *resolution.Query) { q.Usernames[network] = "" },
			func(q *resolution.Query) { q.Emails = nil },
		} {
			fewer := q
			less(&fewer)
			if without := resolution.Resolve(fewer, facts); answer(without) != "-/-" {
				require.NotEqual(t, "-/-", answer(full), "%+v of %+v", q, facts)
			}
		}
	}
}

func TestResolve_MatchesBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	seen := map[string]int{}
	for range 20_000 {
		facts, q := draw(r), drawQuery(r)
		facts.Discovered = nil // covered by the table test
		got := resolution.Resolve(q, facts)
		mixed := facts
		mixed.Records = slices.Clone(facts.Records)
		r.Shuffle(len(mixed.Records), func(i, j int) {
			mixed.Records[i], mixed.Records[j] = mixed.Records[j], mixed.Records[i]
		})
		require.Equal(t, answer(got), answer(resolution.Resolve(q, mixed)), "the order of rows matters")

		both := got[codehost].Record != nil && got[network].Record != nil
		for _, w := range []resolution.Webset{codehost, network} {
			m := got[w]
			if m.Record == nil {
				// A webset without a match has no record that could be combined.
				if q.Requested[w] && got[w.Other()].Record == nil {
					require.Empty(t, found(facts, q, w), "%+v of %+v", q, facts)
				}
				for _, f := range found(facts, q, w) {
					if q.Requested[w] {
						require.True(t, contradicts(facts, f, got[w.Other()].Record), "%+v of %+v", q, facts)
					}
				}
				continue
			}
			require.True(t, q.Requested[w])
			seen[strconv.Itoa(int(m.Step))]++
			require.True(t, slices.ContainsFunc(found(facts, q, w), func(f *resolution.Record) bool {
				return f.Identity == m.Record.Identity
			}))
		}
		if both {
			seen["both"]++
			require.False(t, contradicts(facts, got[codehost].Record, got[network].Record), "%+v of %+v", q, facts)
		}
	}
	for _, key := range []string{"1", "2", "3", "4", "both"} {
		require.Greater(t, seen[key], 100, "%v", seen)
	}
}

// found returns all records of a webset reached by an identifier, a stated link or the address.
func found(facts resolution.Rows, q resolution.Query, w resolution.Webset) []*resolution.Record {
	holds := func(r *resolution.Record, username string) bool {
		outdated := slices.ContainsFunc(facts.Records, func(o resolution.Record) bool {
			newer := o.Updated > r.Updated || o.Updated == r.Updated && o.Identity < r.Identity
			return o.Webset == r.Webset && o.Username == username && newer
		})
		return username != "" && r.Username == username && !outdated
	}
	// mail is the owners of the first form with a match, the most recently updated first.
	mail := func(w resolution.Webset) []*resolution.Record {
		var out []*resolution.Record
		for _, e := range q.Emails {
			for i := range facts.Records {
				if r := &facts.Records[i]; len(out) == 0 || slices.Contains(out[0].Emails, e) {
					if r.Webset == w && slices.Contains(r.Emails, e) {
						out = append(out, r)
					}
				}
			}
			if len(out) > 0 {
				break
			}
		}
		slices.SortFunc(out, func(a, b *resolution.Record) int {
			if a.Updated != b.Updated {
				return int(b.Updated - a.Updated)
			}
			return strings.Compare(a.Identity, b.Identity)
		})
		return out
	}
	type source struct {
		username string
		declares []string
	}
	var sources []source
	if u := q.Usernames[w.Other()]; u != "" {
		sources = append(sources, source{username: u})
		for _, r := range facts.Records {
			if r.Webset == w.Other() && holds(&r, u) {
				sources = append(sources, source{u, r.Declares})
			}
		}
	}
	if m := mail(w.Other()); len(m) > 0 {
		sources = append(sources, source{m[0].Username, m[0].Declares})
	}
	var out []*resolution.Record
	for i := range facts.Records {
		r := &facts.Records[i]
		if r.Webset != w {
			continue
		}
		reached := holds(r, q.Usernames[w]) || slices.Contains(mail(w), r)
		for _, s := range sources {
			declared := slices.Contains(s.declares, r.Username) && holds(r, r.Username)
			reached = reached || declared || slices.Contains(r.Declares, s.username)
			for _, l := range facts.AccountLinks {
				reached = reached || l.Usernames[w.Other()] == s.username && l.Usernames[w] == r.Username &&
					holds(r, r.Username)
			}
		}
		if reached {
			out = append(out, r)
		}
	}
	return out
}

// contradicts reports whether a declared link of one record leads to a record other than the second.
func contradicts(facts resolution.Rows, a, b *resolution.Record) bool {
	for _, pair := range [][2]*resolution.Record{{a, b}, {b, a}} {
		from, to := pair[0], pair[1]
		ends := map[bool]int{} // number of links by whether they lead to the other record
		for _, d := range from.Declares {
			ends[d == to.Username]++
		}
		if len(from.Declares) == 0 {
			for _, r := range facts.Records {
				if r.Webset == to.Webset && slices.Contains(r.Declares, from.Username) {
					ends[r.Identity == to.Identity]++
				}
			}
			for _, l := range facts.AccountLinks {
				if l.Declared && l.Usernames[from.Webset] == from.Username {
					ends[l.Usernames[to.Webset] == to.Username]++
				}
			}
		}
		if ends[false] > 0 && ends[true] == 0 {
			return true
		}
	}
	return false
}
