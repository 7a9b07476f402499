package identity_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/identity"
)

func TestNoReply_ParsesNoReplyAddressesOnly(t *testing.T) {
	p := identity.Default()
	for _, c := range []struct {
		address string
		id      int64
		name    string
		ok      bool
	}{
		{"12+jane@users.noreply.codehost.example", 12, "jane", true},
		{" 12+Jane-Doe@Users.NoReply.CodeHost.Example ", 12, "Jane-Doe", true},
		{"jane@users.noreply.codehost.example", 0, "jane", true},
		{"7+bot[bot]@users.noreply.codehost.example", 7, "bot[bot]", true},
		{"12+jane@users.noreply.git.corp.example", 12, "jane", true},
		{"12+jane@users.noreply.elsewhere.example", 0, "", false},
		{"12+jane@users.noreply.network.example", 0, "", false},
		{"jane@codehost.example", 0, "", false},
		{"noreply@codehost.example", 0, "", false},
		{"x+jane@users.noreply.codehost.example", 0, "", false},
		{"0+jane@users.noreply.codehost.example", 0, "", false},
		{"-3+jane@users.noreply.codehost.example", 0, "", false},
		{"99999999999999999999+jane@users.noreply.codehost.example", 0, "", false},
		{"12+@users.noreply.codehost.example", 0, "", false},
		{"12+a+b@users.noreply.codehost.example", 0, "", false},
		{"@users.noreply.codehost.example", 0, "", false},
		{"jane", 0, "", false},
		{"", 0, "", false},
	} {
		id, name, ok := p.NoReply(c.address, "git.corp.example")
		require.Equal(t, c.ok, ok, c.address)
		require.Equal(t, c.id, id, c.address)
		require.Equal(t, c.name, name, c.address)
	}
}
