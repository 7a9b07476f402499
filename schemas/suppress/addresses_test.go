package suppress_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/suppress"
)

func TestAddresses_FindsErasedPeople(t *testing.T) {
	s := suppress.NewSet(key(t, 1))
	require.False(t, s.Addresses([]byte(`{"email":"ada@example.com"}`)))
	put(t, s, suppress.Email, "ada@example.com", suppress.Entry{})
	put(t, s, suppress.Email, "host@example.com", suppress.Entry{Scope: suppress.Codehost})
	put(t, s, suppress.Email, "net@example.com", suppress.Entry{Scope: suppress.Network})
	put(t, s, suppress.Email, "back@example.com", suppress.Entry{Unsuppressed: true})
	put(t, s, suppress.UserID, "42", suppress.Entry{})
	for text, want := range map[string]bool{
		``:                             false,
		`[]`:                           false,
		`"ada`:                         false,
		`{"email":`:                    false,
		`"ada@example.com"`:            false,
		`{"email":"Ada@Example.com "}`: true,
		`{"a":[{"b":{}},{"emails":["x@example.com",["ada@example.com"]]}]}`:      true,
		`{"emails":[{"note":"ada@example.com"}],"more":"ada@example.com"}`:       false,
		`{"personal_email":{"email":"ada@example.com"}}`:                         true,
		`{"personal_email":{},"x":1,"bio":"write to ada@example.com"}`:           false,
		`{"email":"write to ada@example.com"}`:                                   false,
		`{"commits":[{"author_email":null},{"author_email":"ada@example.com"}]}`: true,
		`{"commits":[{"author_email":"host@example.com"}]}`:                      true,
		`{"commits":[{"author_email":"net@example.com"}]}`:                       false,
		`{"emails":["host@example.com","net@example.com","back@example.com"]}`:   false,
		`{"emails":["ada@example.com"`:                                           true,
	} {
		require.Equal(t, want, s.Addresses([]byte(text)), text)
	}
	var none *suppress.Set
	require.False(t, none.Addresses([]byte(`{"email":"ada@example.com"}`)))
}
