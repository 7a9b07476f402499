package suppress

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muster/schemas/event"
	"muster/schemas/identity"
	"muster/schemas/record"
)

// Stored is what a stored response says about people, for a response that cannot be read where it is deleted because
// it is encrypted. All names are normalized.
type Stored struct {
	// Identities are the records of the response, as "<kind> <identity>" ([Set.IsAnyNamed]).
	Identities []string
	// Identifiers are those of [Set.Identifier], Accounts are "<platform> <username>".
	Identifiers, Accounts []string
	// Body is the response as JSON; its e-mail addresses are those of [Set.Addresses].
	Body []byte
}

// Record returns the platform of a person's record, "<kind> <identity>", and the hash by which it is suppressed by its
// id. It returns false for other kinds.
func (k *Key) Record(name string) (event.Disclosure, bool) {
	kind, id, _ := strings.Cut(name, " ")
	platform := record.Kind(kind).Platform()
	t, ok := typesOf(platform)
	if id = strings.TrimSpace(id); !ok || id == "" {
		return event.Disclosure{}, false
	}
	return event.Disclosure{Platform: platform, Hash: k.Of(t.id, id)}, true
}

// Disclosed reports whether a record that was returned is suppressed by its id, and the version of the request.
func (s *Set) Disclosed(d event.Disclosure) (record.Version, bool) {
	if !s.active() {
		return 0, false
	}
	t, ok := typesOf(d.Platform)
	if !ok || !s.matches(d.Hash, t.webset) {
		return 0, false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return record.Version(s.entries.get(d.Hash) >> versionBits), true
}

// StoredHashes returns the hashes of the people in a stored response, concatenated, for [Set.Stored]. A nil set
// returns none.
func (s *Set) StoredHashes(r Stored) []byte {
	if s == nil {
		return nil
	}
	var hashes []Hash
	add := func(t Type, standard string) {
		if t != "" && standard != "" {
			hashes = append(hashes, s.key.Of(t, standard))
		}
	}
	address := func(key string) {
		add(Email, key)
		for _, form := range identity.EmailForms(key) {
			add(Email, form)
		}
	}
	for _, name := range r.Identities {
		if d, ok := s.key.Record(name); ok {
			hashes = append(hashes, d.Hash)
		}
	}
	for _, name := range r.Identifiers {
		platform, rest, _ := strings.Cut(name, " ")
		kind, value, _ := strings.Cut(rest, " ")
		t, ok := typesOf(platform)
		switch {
		case !ok:
		case kind == "id":
			add(t.id, strings.TrimSpace(value))
		case kind == "username":
			add(t.username, value)
		case kind == "email":
			address(value)
		}
	}
	for _, name := range r.Accounts {
		platform, username, _ := strings.Cut(name, " ")
		if t, ok := typesOf(platform); ok {
			add(t.username, username)
			add(t.account, username)
		}
	}
	eachAddress(lenient(r.Body), "", address)
	slices.SortFunc(hashes, func(a, b Hash) int { return slices.Compare(a[:], b[:]) })
	hashes = slices.Compact(hashes)
	out := make([]byte, 0, len(hashes)*len(Hash{}))
	for _, h := range hashes {
		out = append(out, h[:]...)
	}
	return out
}

// eachAddress calls found with the normalized addresses of the fields that [Set.Addresses] reads. It returns false if
// it cannot continue.
func eachAddress(dec *jsontext.Decoder, name string, found func(string)) bool {
	switch dec.PeekKind() {
	case '{':
		return each(dec, '}', func() bool {
			key, err := dec.ReadToken()
			return err == nil && eachAddress(dec, strings.ToLower(key.String()), found)
		})
	case '[':
		return each(dec, ']', func() bool { return eachAddress(dec, name, found) })
	case '"':
		if !isAddressField(name) {
			break
		}
		t, err := dec.ReadToken()
		if err != nil {
			return false
		}
		if key, err := identity.NormalizeEmail(t.String()); err == nil {
			found(key)
		}
		return true
	}
	return dec.SkipValue() == nil
}

// Stored reports whether one of the hashes of [Set.StoredHashes] is suppressed, in any scope.
func (s *Set) Stored(hashes []byte) bool {
	if !s.active() {
		return false
	}
	for part := range slices.Chunk(hashes, len(Hash{})) {
		if len(part) == len(Hash{}) && s.Suppressed(Hash(part)) {
			return true
		}
	}
	return false
}
