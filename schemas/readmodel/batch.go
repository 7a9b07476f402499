package readmodel

import (
	"fmt"
	"strconv"
	"strings"

	"muster/schemas/derive"
	"muster/schemas/identity"
	"muster/schemas/record"
	"muster/schemas/suppress"
)

// Position is the location of a record: topic, partition and offset.
type Position struct {
	Topic     string `ch:"topic"`
	Partition int32  `ch:"partition"`
	Offset    int64  `ch:"offset"`
}

// Renderer converts records to rows. It is not safe for concurrent use.
type Renderer struct {
	platforms *identity.Platforms
	deriver   *derive.Deriver
	network   networkShapes
	codehost  codehostShapes
	company   companyShapes

	w                                     writer
	content                               []byte   // scratch
	keys, emails                          []string // scratch
	experience, education, certifications []ranked // scratch
}

// NewRenderer returns a Renderer that parses social accounts with platforms. Its rows include derived values
// (package derive).
func NewRenderer(platforms *identity.Platforms) *Renderer {
	return &Renderer{
		platforms: platforms,
		deriver:   derive.New(platforms),
		network:   newNetworkShapes(),
		codehost:  newCodehostShapes(),
		company:   newCompanyShapes(),
		keys:      make([]string, 0, 16),
	}
}

// Rows adds the rows of a record to a batch, which references the record's strings until it is reset.
// Embedded repositories and commits must have been split off (record.Record.Split). It returns an error if
// the kind has no table.
func (r *Renderer) Rows(b *Batch, rec *record.Record, at Position) error {
	switch body := rec.Body.(type) {
	case *record.NetworkPerson:
		r.networkPerson(b, rec, body, at)
	case *record.NetworkCompany:
		r.networkCompany(b, rec, body, at)
	case *record.CodehostPerson:
		r.codehostPerson(b, rec, body, at)
	case *record.CodehostRepo:
		r.codehostRepo(b, rec, body, at)
	case *record.CodehostCommit:
		r.codehostCommit(b, rec, body, at)
	case *record.CodehostList:
		r.codehostList(b, rec, body, at)
	case *record.MicroblogPerson:
		r.microblogPerson(b, rec, body, at)
	case *record.AccountLink:
		r.accountLink(b, rec, body, at)
	default:
		return fmt.Errorf("record of kind %s has no read model", rec.Kind)
	}
	b.records++
	return nil
}

// Batch holds rows by column for an insert. The zero value is empty.
type Batch struct {
	records int
	slab    []string // key lists of rows
	// lastAuthor and lastVersion are those of the last lookup of a commit.
	lastAuthor  commitAuthor
	lastVersion record.Version

	lookups          lookupTable
	networkPeople    networkPeopleTable
	searchPeople     searchTable
	searchCompanies  searchTable
	codehostPeople   codehostPeopleTable
	codehostRepos    codehostReposTable
	codehostCommits  codehostCommitsTable
	codehostLists    codehostListsTable
	networkCompanies networkCompaniesTable
	microblogPeople  microblogPeopleTable
	accountLinks     accountLinksTable
	seenVersions     seenVersionsTable
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.records, b.lastAuthor = 0, commitAuthor{}
	clear(b.slab)
	b.slab = b.slab[:0]
	b.searchPeople.reset()
	b.searchCompanies.reset()
	clear(b.lookups.joining)
	b.lookups.joining = b.lookups.joining[:0]
	for _, t := range b.tables() {
		for _, f := range t.columns() {
			f.values.reset()
		}
	}
}

// Records returns the number of records whose rows were added.
func (b *Batch) Records() int { return b.records }

// copyList copies a scratch list into the batch.
func (b *Batch) copyList(list []string) []string {
	begin := len(b.slab)
	b.slab = append(b.slab, list...)
	return b.slab[begin:len(b.slab):len(b.slab)]
}

// Tables returns the tables of the read models in the order in which Insert writes them. Lookups come first,
// so that a value that a record keeps can always be found.
func Tables() []string {
	var b Batch
	var names []string
	for _, t := range b.tables() {
		names = append(names, t.name)
	}
	return names
}

// commonColumns are the columns of every table.
type commonColumns struct {
	version     column[int64]
	revision    column[uint32]
	contentHash column[uint64]
	deleted     column[bool]
	topic       column[string]
	partition   column[int32]
	offset      column[int64]
}

func (h *commonColumns) add(rec *record.Record, at Position) {
	h.version.add(int64(rec.Version))
	h.revision.add(rec.Revision)
	h.contentHash.add(rec.Hash)
	h.deleted.add(rec.Deleted)
	h.topic.add(at.Topic)
	h.partition.add(at.Partition)
	h.offset.add(at.Offset)
}

// lookupsOf returns a writer for the lookups of one record.
func (b *Batch) lookupsOf(rec *record.Record, targetKind, target string, at Position) lookupWriter {
	return lookupWriter{t: &b.lookups, rec: rec, at: at, targetKind: targetKind, target: target, confidence: 1}
}

type lookupWriter struct {
	t                          *lookupTable
	rec                        *record.Record
	at                         Position
	targetKind, target, source string
	confidence                 float32
}

// maxNamed is the maximum number of declared usernames in a row of lookups.
const maxNamed = 8

// addUsername indexes the record by its username, with the declared usernames of the other webset.
func (l *lookupWriter) addUsername(lookup LookupType, value string, declared []string) {
	named := *l
	if len(declared) <= maxNamed {
		named.source = strings.Join(declared, " ")
	}
	named.add(lookup, value)
}

// addDeclared indexes the record by the usernames of the other webset that it declares, with its own one.
func (l *lookupWriter) addDeclared(lookup LookupType, values []string, username string) {
	naming := *l
	naming.source = username
	naming.addAll(lookup, values)
}

func (l *lookupWriter) addAll(t LookupType, values []string) {
	for _, v := range values {
		l.add(t, v)
	}
}

// addEmails indexes the record by e-mail addresses and their hashes.
func (l *lookupWriter) addEmails(t LookupType, addresses ...string) {
	for _, a := range addresses {
		l.add(t, a)
		l.add(LookupEmailMD5, EmailMD5(a))
	}
}

// maxPhones is the maximum number of phone numbers by which a record is indexed.
const maxPhones = 10

// addPhones indexes a person's record by its phone numbers.
func (l *lookupWriter) addPhones() {
	numbers := suppress.RecordPhones(l.rec)
	l.addAll(LookupPhone, numbers[:min(len(numbers), maxPhones)])
}

// add indexes the record by a value. Empty values are ignored.
func (l *lookupWriter) add(lookup LookupType, value string) {
	if value == "" {
		return
	}
	t := l.t
	t.keyHash.add(KeyHash(lookup, value))
	t.ver.add(l.rec)
	t.topic.add(l.at.Topic)
	t.partition.add(l.at.Partition)
	t.offset.add(l.at.Offset)
	var stack [128]byte
	t.claim.add(appendClaim(stack[:0], lookup, value, l.targetKind, l.target, l.source))
	t.confidence.add(l.confidence)
	if lookup.joins(l.target) {
		t.joining = append(t.joining, joiningLookup{
			hash: t.keyHash.list[len(t.keyHash.list)-1], value: value,
			targetKind: l.targetKind, target: l.target,
		})
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
