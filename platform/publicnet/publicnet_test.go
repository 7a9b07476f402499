package publicnet_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"muster/platform/publicnet"
)

func TestGuardian_RejectsMetadataServicesInEveryForm(t *testing.T) {
	g := publicnet.NewGuardian()
	for _, s := range publicnet.MetadataServices() {
		forms := []netip.Addr{s}
		if s.Is4() {
			v4 := s.As4()
			nat64, sixToFour := netip.MustParseAddr("64:ff9b::").As16(), netip.MustParseAddr("2002::").As16()
			copy(nat64[12:], v4[:])
			copy(sixToFour[2:], v4[:])
			forms = append(forms, netip.AddrFrom16(s.As16()), netip.AddrFrom16(nat64),
				netip.AddrFrom16(sixToFour))
		}
		for _, a := range forms {
			require.Error(t, g.SafeAddrPort(netip.AddrPortFrom(a, 443)), "%s", a)
		}
	}
	for _, public := range []string{
		"168.63.129.15", "168.63.129.17", "192.80.8.125", "93.184.216.34", "2606:2800:220:1::1",
	} {
		require.NoError(t, g.SafeAddrPort(netip.AddrPortFrom(netip.MustParseAddr(public), 8443)), public)
	}
}

func TestIsPrivateName_ReportsDomainsWithoutPublicNames(t *testing.T) {
	for name, want := range map[string]bool{
		"localhost": true, "LOCALHOST.": true, "a.localhost": true,
		"metadata.google.internal": true, "Metadata.Google.Internal.": true,
		"printer.local": true, "nas.home.arpa": true, "internal": true,
		"hooks.example": false, "internal.example": false, "notlocalhost": false, "local.example": false, "": false,
	} {
		require.Equal(t, want, publicnet.IsPrivateName(name), name)
	}
}
