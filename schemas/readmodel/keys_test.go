package readmodel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/identity"
	"muster/schemas/readmodel"
)

// The computed lookup types equal the constants.
func TestLookupType_EqualsConstantsOfPlatform(t *testing.T) {
	for want, is := range map[readmodel.LookupType]readmodel.LookupType{
		readmodel.LookupNetworkUsername:           readmodel.LookupUsername(identity.Network),
		readmodel.LookupCodehostUsername:          readmodel.LookupUsername(identity.Codehost),
		readmodel.LookupMicroblogUsername:         readmodel.LookupUsername(identity.Microblog),
		readmodel.LookupNetworkEmail:              readmodel.LookupEmail(identity.Network),
		readmodel.LookupCodehostEmail:             readmodel.LookupEmail(identity.Codehost),
		readmodel.LookupNetworkCodehostUsername:   readmodel.LookupDeclared(identity.Network, identity.Codehost),
		readmodel.LookupNetworkMicroblogUsername:  readmodel.LookupDeclared(identity.Network, identity.Microblog),
		readmodel.LookupCodehostNetworkUsername:   readmodel.LookupDeclared(identity.Codehost, identity.Network),
		readmodel.LookupCodehostMicroblogUsername: readmodel.LookupDeclared(identity.Codehost, identity.Microblog),
		readmodel.LookupLinkCodehost:              readmodel.LookupLink(identity.Codehost),
		readmodel.LookupLinkNetwork:               readmodel.LookupLink(identity.Network),
		readmodel.LookupLinkMicroblog:             readmodel.LookupLink(identity.Microblog),
	} {
		require.Equal(t, want, is)
	}
}

// The hashes are stored and must not change.
func TestKeyHash_IsStable(t *testing.T) {
	for name, c := range map[string]struct{ want, is uint64 }{
		"profile":   {0x3a1c9b039ab3f6ba, readmodel.ProfileHash("a")},
		"company":   {0x3076714c95a9e123, readmodel.CompanyHash("a")},
		"microblog": {0xddf569bf08629cf8, readmodel.MicroblogHash("a")},
		"link":      {0xdce47cca436cc70c, readmodel.LinkHash("a")},
		// The first bytes of `printf a@x.example | sha256sum`.
		"email": {0xcbfac86646b35646, readmodel.KeyHash(readmodel.LookupNetworkEmail, "a@x.example")},
	} {
		require.Equal(t, c.want, c.is, name)
	}
}
