package record

import (
	"embed"
	"strings"

	"muster/schemas/identity"
)

// Kind is a kind of record (records.md, table).
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
	// KindErasure requests erasures. Such requests are ingested like records but are not published as
	// records: they have no topic and no read model, and are not in [Definitions].
	KindErasure Kind = "erasure"
	// KindCodehostList is created by SplitEmbedded and never ingested directly.
	KindCodehostList Kind = "codehost-list"
)

// Platform returns the platform of a kind of people, or "" for other kinds.
func (k Kind) Platform() string {
	switch k {
	case KindNetworkPerson:
		return identity.Network
	case KindCodehostPerson:
		return identity.Codehost
	case KindMicroblogPerson:
		return identity.Microblog
	}
	return ""
}

// Definition describes a kind of record.
type Definition struct {
	Kind Kind
	// Topic is the compacted Kafka topic of the kind; empty for erasures.
	Topic string
	// IdentityFields and VersionField are names of top-level fields.
	IdentityFields []string
	VersionField   string
	// Schema is the JSON Schema (2020-12) of a record as ingested.
	Schema []byte
	// Internal marks a kind that cannot be ingested from outside.
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

// Lookup returns the definition of a kind, including KindErasure.
func Lookup(kind Kind) (Definition, bool) {
	c, ok := codecOf(kind)
	if !ok {
		return Definition{}, false
	}
	return c.definition(), true
}

// Kinds returns the kinds that can be ingested, in a fixed order.
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

// body is implemented by every Go type of a record.
type body interface {
	// head returns the version as given, and whether the record is a deletion.
	head() (version string, deleted bool)
	// key returns the identity as a Kafka key.
	key() (string, *ValidationError)
	// check validates what the types do not. It is not called for deletions.
	check() *ValidationError
}

// codec is the registry entry of a kind.
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
		panic("record: " + err.Error()) // A test covers every definition.
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

// hashed reports whether a top-level field is part of the content hash. The version and the lists that SplitEmbedded
// extracts are not.
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
