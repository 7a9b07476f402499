// Package publicnet distinguishes addresses of the public internet from those of this host and the networks around it.
//
// The special-purpose ranges of IANA (private, loopback, link-local, carrier NAT, translated and embedded IPv4
// addresses) are rejected, and so are the addresses at which cloud providers serve metadata and credentials to their
// machines.
package publicnet

import (
	"net/netip"
	"strings"

	"code.dny.dev/ssrf"
)

// Service is an address at which a cloud provider serves metadata to its machines.
type Service struct {
	Address  netip.Addr
	Provider string
	Source   string // the provider's documentation
}

// MetadataServices returns the known metadata services. Most are also in a special-purpose range; the providers' host
// names for them resolve to these addresses.
func MetadataServices() []Service {
	known := []struct{ address, provider, source string }{
		{"169.254.169.254", "AWS, Azure, Google Cloud, Oracle Cloud, OpenStack, DigitalOcean and others",
			"https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html"},
		{
			"fd00:ec2::254",
			"AWS",
			"https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html",
		},
		{"169.254.170.2", "AWS ECS", "https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html"},
		{"169.254.170.23", "AWS EKS", "https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html"},
		{"fd00:ec2::23", "AWS EKS", "https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html"},
		// Outside all special-purpose ranges.
		{
			"168.63.129.16",
			"Azure",
			"https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16",
		},
		{"fd20:ce::254", "Google Cloud", "https://cloud.google.com/compute/docs/metadata/querying-metadata"},
		{"100.100.100.200", "Alibaba Cloud", "https://www.alibabacloud.com/help/ecs/user-guide/view-instance-metadata"},
		{"192.0.0.192", "Oracle Cloud Classic", "https://docs.oracle.com/cloud/iaas-classic/compute-iaas-cloud/stcsg/"},
		{
			"fd00:c1::a9fe:a9fe",
			"Oracle Cloud",
			"https://docs.oracle.com/iaas/Content/Compute/Tasks/gettingmetadata.htm",
		},
		{"169.254.0.23", "Tencent Cloud", "https://www.tencentcloud.com/document/product/213/4934"},
		{"169.254.42.42", "Scaleway", "https://www.scaleway.com/docs/instances/how-to/use-cloud-init/"},
		{"fd00:42::42", "Scaleway", "https://www.scaleway.com/docs/instances/how-to/use-cloud-init/"},
		{"fd00:a9fe:a9fe::1", "Linode", "https://techdocs.akamai.com/cloud-computing/docs/metadata-service-api"},
		// Outside all special-purpose ranges.
		{"192.80.8.124", "Equinix Metal", "https://deploy.equinix.com/developers/docs/metal/server-metadata/metadata/"},
	}
	services := make([]Service, len(known))
	for i, k := range known {
		services[i] = Service{netip.MustParseAddr(k.address), k.provider, k.source}
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
		p := netip.PrefixFrom(s.Address, s.Address.BitLen())
		if s.Address.Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	return ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(v4...), ssrf.WithDeniedV6Prefixes(v6...))
}
