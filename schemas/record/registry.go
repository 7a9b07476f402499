package record

import (
	"embed"
	"strings"
)

// Kind names a kind of record (records.md, table).
type Kind string

// The kinds of records.
const (
	KindNetworkPerson   Kind = "network-person"
	KindNetworkCompany  Kind = "network-company"
	KindCodehostPerson  Kind = "codehost-person"
	KindCodehostRepo    Kind = "codehost-repo"
	KindCodehostCommit  Kind = "codehost-commit"
	KindMicroblogPerson Kind = "microblog-person"
	KindAccountLink     Kind = "account-link"
	// KindErasure asks for people to be forgotten. It is handed in as records are
	// and never published as one: they are orders, which have no
	// topic of their own, no read model, and are not among [Definitions].
	KindErasure Kind = "erasure"
	// KindCodehostList is made by Split and never handed in.
	KindCodehostList Kind = "codehost-list"
)

// Definition describes a kind of record.
type Definition struct {
	Kind Kind
	// Topic is the compacted Kafka topic of the kind; empty for erasures.
	Topic string
	// IdentityFields and VersionField are names of top-level fields.
	IdentityFields []string
	VersionField   string
	// Schema is the JSON Schema (2020-12) of a record as it is handed in.
	Schema []byte
	// Internal marks a kind that is not handed in from outside.
	Internal bool
}

//go:embed jsonschema/*.json
var schemas embed.FS

// Definitions returns every kind, in a fixed order.
func Definitions() []Definition {
	all := codecs()
	definitions := make([]Definition, len(all))
	for i, c := range all {
		definitions[i] = c.definition()
	}
	return definitions
}

// Lookup returns the definition of a kind.
// That of erasures is among them.
func Lookup(kind Kind) (Definition, bool) {
	c, ok := codecOf(kind)
	if !ok {
		return Definition{}, false
	}
	return c.definition(), true
}

// Kinds returns the kinds that are handed in from outside, in a fixed order.
func Kinds() []Kind {
	var kinds []Kind
	for _, c := range codecs() {
		if !c.internal {
			kinds = append(kinds, c.kind)
		}
	}
	return append(kinds, KindErasure)
}

// Topic returns the topic of a kind.
func (k Kind) Topic() string { return "muster.record." + string(k) + ".v1" }

// body is what every Go type of a record offers to Decode.
type body interface {
	// head returns the version as it was given, and whether the record
	// withdraws its identity.
	head() (version string, deleted bool)
	// key returns the identity as a Kafka key.
	key() (string, *Invalid)
	// check finds what the types alone do not rule out. It is not called for a
	// withdrawal.
	check() *Invalid
}

// codec is the registry's entry of a kind.
type codec struct {
	kind     Kind
	identity string // names of the identity fields, separated by spaces
	version  string
	internal bool
	new      func() body
}

func (c codec) definition() Definition {
	schema, err := schemas.ReadFile("jsonschema/" + string(c.kind) + ".json")
	if err != nil {
		panic("record: " + err.Error()) // a test reads every definition
	}
	topic := c.kind.Topic()
	if c.kind == KindErasure {
		topic = ""
	}
	return Definition{
		Kind:           c.kind,
		Topic:          topic,
		IdentityFields: strings.Fields(c.identity),
		VersionField:   c.version,
		Schema:         schema,
		Internal:       c.internal,
	}
}

// hashed reports whether a top-level member takes part in the content hash: the
// version does not, nor do the lists that Split takes out, which are records of
// their own.
func (c codec) hashed(name []byte) bool {
	if string(name) == c.version {
		return false
	}
	return c.kind != KindCodehostPerson || !isEmbedded(string(name))
}

// codecs is the registry.
func codecs() [8]codec {
	return [...]codec{
		{KindNetworkPerson, "profile_id", "last_updated", false, func() body { return new(NetworkPerson) }},
		{KindNetworkCompany, "company_id", "last_updated", false, func() body { return new(NetworkCompany) }},
		{KindCodehostPerson, "user_id", "last_updated", false, func() body { return new(CodehostPerson) }},
		{KindCodehostRepo, "user_id id", "updated_at", false, func() body { return new(CodehostRepo) }},
		{KindCodehostCommit, "user_id sha", "author_date", false, func() body { return new(CodehostCommit) }},
		{KindMicroblogPerson, "user_id", "last_updated", false, func() body { return new(MicroblogPerson) }},
		{KindAccountLink, "a b source", "observed_at", false, func() body { return new(AccountLink) }},
		{KindCodehostList, "user_id list", "last_updated", true, func() body { return new(CodehostList) }},
	}
}

func erasureCodec() codec {
	return codec{KindErasure, "identifiers", "requested_at", false, func() body { return new(Erasure) }}
}

func codecOf(kind Kind) (codec, bool) {
	if kind == KindErasure {
		return erasureCodec(), true
	}
	for _, c := range codecs() {
		if c.kind == kind {
			return c, true
		}
	}
	return codec{}, false
}
