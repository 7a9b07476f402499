package sampledata

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
	return []string{NetworkCompany, NetworkPerson, CodehostPerson, CodehostRepo, CodehostCommit, MicroblogPerson,
		AccountLink}
}

// Options are the parameters of a generation. Zero values select the defaults.
type Options struct {
	People int    // number of people; required, at most MaxPeople
	Seed   uint64 // different seeds give different data
	// Now is the time of the newest possible crawl. Default 2026-11-15T00:00:00Z, fixed so that a seed always
	// gives the same data.
	Now time.Time
	// AccountLinks is the minimum number of distinct account links. Additional ones connect network and
	// codehost; except for JoinedLinks, one of their accounts has no record, as in most links of a crawl.
	AccountLinks int
	// JoinedLinks is the minimum number of links between network and codehost accounts that both have
	// records. About 23 in 100 people have both; beyond that, further sources report the same pairs.
	JoinedLinks int
}

// MaxPeople is the maximum of Options.People: repository ids are permutations of 64 per person and stay far
// below 2^53, so that every JSON reader represents them exactly.
const MaxPeople = 100_000_000

func (o Options) withDefaults() (Options, error) {
	if o.People < 1 || o.People > MaxPeople {
		return o, errors.New("sampledata: People must be between 1 and 100,000,000")
	}
	if o.AccountLinks < 0 || o.JoinedLinks < 0 {
		return o, errors.New("sampledata: AccountLinks and JoinedLinks must not be negative")
	}
	if o.Now.IsZero() {
		o.Now = time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)
	}
	o.Now = o.Now.UTC().Truncate(time.Second)
	if o.Now.Year() < 2020 {
		return o, errors.New("sampledata: Now must be 2020 or later")
	}
	return o, nil
}

// Sink receives the output. Bytes are valid until the call returns. An error ends the generation and is
// returned by [Generate].
type Sink interface {
	// Record receives one upstream record of a kind, without line end.
	Record(kind string, json []byte) error
	// Truth receives one line of the truth file, see [World] for its forms.
	Truth(json []byte) error
}

// Summary counts the output.
type Summary struct {
	People  int            `json:"people"`
	Records map[string]int `json:"records"` // lines per kind, including repetitions and deletions
	Truth   int            `json:"truth"`   // lines of truth
	Bytes   int64          `json:"bytes"`   // of records, including line ends
}
