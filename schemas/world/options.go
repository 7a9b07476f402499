package world

import (
	"errors"
	"time"
)

// Kinds of record that the package writes, as records.md names them.
const (
	NetworkPerson   = "network-person"
	NetworkCompany  = "network-company"
	CodehostPerson  = "codehost-person"
	CodehostRepo    = "codehost-repo"
	CodehostCommit  = "codehost-commit"
	MicroblogPerson = "microblog-person"
	AccountLink     = "account-link"
)

// Kinds returns the record kinds in the order in which [Generate] writes them.
func Kinds() []string {
	return []string{NetworkCompany, NetworkPerson, CodehostPerson, CodehostRepo, CodehostCommit, MicroblogPerson, AccountLink}
}

// Options describe one world. The zero value of a field means its default.
type Options struct {
	People int    // number of people; required, at most MaxPeople
	Seed   uint64 // another seed is another world
	// Now is the moment of the newest possible crawl. Default 2026-11-15T00:00:00Z,
	// fixed so that a seed means the same world tomorrow.
	Now time.Time
	// AccountLinks is the least number of distinct account links to write, when
	// the world itself yields fewer. The additional ones join the network and the
	// codehost; but for JoinedLinks they name an account on one side that no
	// record describes, as most links in a crawl do.
	AccountLinks int
	// JoinedLinks is the least number of links between network and codehost
	// accounts that records describe on both sides. About 23 in 100 people have
	// both; beyond that, the same pair is reported by further sources.
	JoinedLinks int
}

// MaxPeople bounds Options.People: repository ids are permutations of 64 a
// person and stay far below 2^53, so that every JSON reader holds them exactly.
const MaxPeople = 100_000_000

func (o Options) withDefaults() (Options, error) {
	if o.People < 1 || o.People > MaxPeople {
		return o, errors.New("world: People must be between 1 and 100,000,000")
	}
	if o.AccountLinks < 0 || o.JoinedLinks < 0 {
		return o, errors.New("world: AccountLinks and JoinedLinks must not be negative")
	}
	if o.Now.IsZero() {
		o.Now = time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)
	}
	o.Now = o.Now.UTC().Truncate(time.Second)
	if o.Now.Year() < 2020 {
		return o, errors.New("world: Now must be 2020 or later")
	}
	return o, nil
}

// Sink receives the world. The bytes are valid until the call returns. An error
// ends the generation and is returned by [Generate].
type Sink interface {
	// Record is given one upstream record of the kind, without line end.
	Record(kind string, json []byte) error
	// Truth is given one line of the truth file, see [World] for its shapes.
	Truth(json []byte) error
}

// Summary counts what was written.
type Summary struct {
	People  int            `json:"people"`
	Records map[string]int `json:"records"` // lines per kind, repeated and withdrawn ones included
	Truth   int            `json:"truth"`   // lines of truth
	Bytes   int64          `json:"bytes"`   // of records, line ends included
}
