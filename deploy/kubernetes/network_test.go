package kubernetes_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// allows reports whether the peers and ports of a rule allow a pod to connect to a port.
func allows(t *testing.T, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort,
	other map[string]string, at workload, port string) bool {
	t.Helper()
	reached := len(peers) == 0
	for _, p := range peers {
		// Only pods of the same namespace: the chart does not know the names of others.
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

// reaches evaluates all policies, as the network does.
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

func TestNetworkPolicies_AllowOnlyKnownConnections(t *testing.T) {
	o := render(t, sharded())
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
		require.Len(t, bound, 2, "%s: policies for both directions", w.name)
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

	// Only these two services may connect to the internet, and not to private addresses.
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
	require.Equal(t, &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "monitoring"}},
		metrics.From[0].NamespaceSelector)
	require.Equal(t, "admin", metrics.Ports[0].Port.StrVal)
}

// egress returns the ports of the only rule in a policy.
func egress(t *testing.T, o objects, name string) (ports []int32) {
	t.Helper()
	rules := o.policies[release+name].Spec.Egress
	require.NotEmpty(t, rules)
	for _, p := range rules[len(rules)-1].Ports {
		ports = append(ports, p.Port.IntVal)
	}
	return ports
}

func TestNetworkPolicies_AllowExternalServers(t *testing.T) {
	ports := egress(t, render(t, external()), "-services")
	require.Subset(t, ports, []int32{9094, 8443, 6380})

	ports = egress(t, render(t, merge(external(), map[string]any{
		"clickhouse":    map[string]any{"externalDSN": "https://u:p%40:1@ch1.example:18443,ch2.example:28443/muster?x=a:77"},
		"redis":         map[string]any{"url": "rediss://:p@r.example:16380/0"},
		"monitoring":    map[string]any{"tracesEndpoint": "https://traces.example/v1"},
		"networkPolicy": map[string]any{"externalPorts": []any{5000}},
	})), "-services")
	require.Subset(t, ports, []int32{18443, 28443, 16380, 443, 5000})
	require.NotContains(t, ports, int32(77))
	require.NotContains(t, ports, int32(1))

	ports = egress(t, render(t, merge(external(), map[string]any{
		"redis": map[string]any{"url": "redis://:p@one:26379/0?master_name=m&addr=two:26380&password=x%3A78&addr=three%3A26381"},
	})), "-services")
	require.Subset(t, ports, []int32{6379, 26379, 26380, 26381})
	require.NotContains(t, ports, int32(78))
	require.Contains(t, egress(t, render(t, variants()["everything"]), "-services"), int32(4318))

	model := map[string]any{"to": []any{map[string]any{"namespaceSelector": map[string]any{}}},
		"ports": []any{map[string]any{"port": 8000}}}
	o := render(t,
		merge(needed(),
			map[string]any{"networkPolicy": map[string]any{"extraEgress": map[string]any{"discovery-worker": []any{model}, "ingest": []any{}}}}))
	require.Equal(t, []int32{8000}, egress(t, o, "-discovery-worker-extra"))
	extra := o.policies[release+"-discovery-worker-extra"]
	require.True(t, matches(t, &extra.Spec.PodSelector, o.workloads[release+"-discovery-worker"].pod.Labels))
	require.False(t, matches(t, &extra.Spec.PodSelector, o.workloads[release+"-webhook-sender"].pod.Labels))
	require.NotContains(t, o.policies, release+"-ingest-extra")
}

// An empty list must not mean all ports.
func TestNetworkPolicies_NoEgressPortsMeansNoEgress(t *testing.T) {
	o := render(t, merge(needed(), map[string]any{"networkPolicy": map[string]any{"egressPorts": []any{}}}))
	for name, p := range o.policies {
		for _, rule := range p.Spec.Egress {
			require.NotEmpty(t, rule.Ports, name)
			for _, peer := range rule.To {
				require.Nil(t, peer.IPBlock, name)
			}
		}
	}
}
