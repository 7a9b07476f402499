package kubernetes_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// allows says whether a rule's peers and ports let a pod speak to a port.
func allows(t *testing.T, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, other map[string]string, at workload, port string) bool {
	t.Helper()
	reached := len(peers) == 0
	for _, p := range peers {
		// Pods of the same namespace only: what namespaces are called is none of the chart's business.
		reached = reached || p.PodSelector != nil && p.NamespaceSelector == nil && matches(t, p.PodSelector, other)
	}
	open := len(ports) == 0
	for _, p := range ports {
		if p.Port.Type == intstr.String {
			open = open || p.Port.StrVal == port
		} else {
			open = open || p.Port.IntVal == portsOf(at)[port]
		}
	}
	return reached && open
}

// reaches evaluates all policies, as the network would.
func (o *objects) reaches(t *testing.T, from, to, port string) bool {
	t.Helper()
	source, target := o.workloads[release+"-"+from], o.workloads[release+"-"+to]
	require.Contains(t, portsOf(target), port)
	var out, in bool
	for _, p := range o.policies {
		if matches(t, &p.Spec.PodSelector, source.pod.Labels) {
			for _, e := range p.Spec.Egress {
				out = out || allows(t, e.To, e.Ports, target.pod.Labels, target, port)
			}
		}
		if matches(t, &p.Spec.PodSelector, target.pod.Labels) {
			for _, i := range p.Spec.Ingress {
				in = in || allows(t, i.From, i.Ports, source.pod.Labels, target, port)
			}
		}
	}
	return out && in
}

func TestNetworkPolicies(t *testing.T) {
	o := render(t, needed())
	services := []string{"ingest", "projector", "query-api", "discovery-worker", "webhook-sender"}
	for _, w := range o.workloads {
		bound := map[networkingv1.PolicyType]bool{}
		for _, p := range o.policies {
			if matches(t, &p.Spec.PodSelector, w.pod.Labels) {
				for _, kind := range p.Spec.PolicyTypes {
					bound[kind] = true
				}
			}
		}
		require.Len(t, bound, 2, "%s is bound both ways", w.name)
	}
	for _, s := range services {
		require.True(t, o.reaches(t, s, "kafka", "broker"), s)
		require.True(t, o.reaches(t, s, "clickhouse-1", "http"), s)
		require.True(t, o.reaches(t, s, "redis", "redis"), s)
		require.False(t, o.reaches(t, s, "keeper", "client"), s)
		require.False(t, o.reaches(t, s, "keeper", "raft"), s)
		require.False(t, o.reaches(t, s, "kafka", "controller"), s)
		require.False(t, o.reaches(t, s, "clickhouse-0", "native"), s)
		for _, other := range services {
			require.False(t, o.reaches(t, s, other, "admin"), "%s to %s", s, other)
		}
	}
	for _, to := range []string{"clickhouse-0", "clickhouse-1"} {
		require.True(t, o.reaches(t, "clickhouse-0", to, "native"))
		require.True(t, o.reaches(t, "clickhouse-0", to, "interserver"))
	}
	require.True(t, o.reaches(t, "clickhouse-0", "keeper", "client"))
	require.True(t, o.reaches(t, "keeper", "keeper", "raft"))
	require.True(t, o.reaches(t, "kafka", "kafka", "controller"))
	require.False(t, o.reaches(t, "kafka", "clickhouse-0", "http"))
	require.False(t, o.reaches(t, "redis", "kafka", "broker"))

	// Only the two that must go out may, and not to private addresses.
	for name, p := range o.policies {
		for _, e := range p.Spec.Egress {
			for _, peer := range e.To {
				if peer.IPBlock == nil {
					continue
				}
				require.Contains(t, []string{release + "-discovery-worker", release + "-webhook-sender"}, name)
				require.NotEmpty(t, peer.IPBlock.Except)
			}
		}
	}
	metrics := o.policies[release+"-services"].Spec.Ingress[0]
	require.Equal(t, &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "monitoring"}}, metrics.From[0].NamespaceSelector)
	require.Equal(t, "admin", metrics.Ports[0].Port.StrVal)
}
