// Package publicnet distinguishes addresses of the public internet from those of this host and the networks around it.
//
// The special-purpose ranges of IANA (private, loopback, link-local, carrier NAT, translated and embedded IPv4
// addresses) are rejected, as are the addresses at which cloud providers serve metadata and credentials to their
// machines.
package publicnet

import (
	"net/netip"
	"strings"

	"code.dny.dev/ssrf"
)

// MetadataServices returns the addresses at which cloud providers serve metadata to their machines. Most are also in a
// special-purpose range; the providers' host names for them resolve to these addresses.
func MetadataServices() []netip.Addr {
	var services []netip.Addr
	for _, address := range []string{
		// AWS, Azure, Google Cloud, Oracle Cloud, OpenStack, DigitalOcean and others:
		// docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
		"169.254.169.254", "fd00:ec2::254",
		"169.254.170.2",                  // docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html
		"169.254.170.23", "fd00:ec2::23", // docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html
		"fd20:ce::254",                 // cloud.google.com/compute/docs/metadata/querying-metadata
		"100.100.100.200",              // www.alibabacloud.com/help/ecs/user-guide/view-instance-metadata
		"192.0.0.192",                  // docs.oracle.com/cloud/iaas-classic/compute-iaas-cloud/stcsg
		"fd00:c1::a9fe:a9fe",           // docs.oracle.com/iaas/Content/Compute/Tasks/gettingmetadata.htm
		"169.254.0.23",                 // www.tencentcloud.com/document/product/213/4934
		"169.254.42.42", "fd00:42::42", // www.scaleway.com/docs/instances/how-to/use-cloud-init
		"fd00:a9fe:a9fe::1", // techdocs.akamai.com/cloud-computing/docs/metadata-service-api
		// Outside all special-purpose ranges:
		// learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16,
		// deploy.equinix.com/developers/docs/metal/server-metadata/metadata
		"168.63.129.16", "192.80.8.124",
	} {
		services = append(services, netip.MustParseAddr(address))
	}
	return services
}

// IsPrivateName reports whether a host name is in a domain that is never in the public DNS: of this machine (RFC 6761),
// of multicast DNS (RFC 6762), of home networks (RFC 8375) or for private use (ICANN resolution 2024.07.29.06), such as
// Google Cloud's metadata service. Other names must be checked by the addresses that they resolve to.
func IsPrivateName(host string) bool {
	host = "." + strings.ToLower(strings.TrimSuffix(host, "."))
	for _, domain := range []string{".localhost", ".local", ".home.arpa", ".internal"} {
		if strings.HasSuffix(host, domain) {
			return true
		}
	}
	return false
}

// NewGuardian returns a check for addresses that are about to be dialed, on any port.
func NewGuardian() *ssrf.Guardian {
	var v4, v6 []netip.Prefix
	for _, s := range MetadataServices() {
		p := netip.PrefixFrom(s, s.BitLen())
		if s.Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	return ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(v4...), ssrf.WithDeniedV6Prefixes(v6...))
}
