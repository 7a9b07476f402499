package kubernetes_test

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func newBuffered(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }

// sharded are the values of two shards of ClickHouse.
func sharded() map[string]any {
	return merge(needed(), map[string]any{
		"clickhouse": map[string]any{"shards": 2},
		"openSearch": map[string]any{"enabled": true, "url": "https://u:p@search.example:9200"},
	})
}

func external() map[string]any {
	return merge(needed(), map[string]any{
		"clickhouse": map[string]any{"bundled": false, "externalDSN": "https://u:p@ch.example:8443/muster"},
		"kafka": map[string]any{
			"bundled": false, "brokers": []any{"b1.example:9094", "b2.example:9094"}, "tls": true,
			"caSecret": "kafka-ca",
			"sasl":     map[string]any{"mechanism": "SCRAM-SHA-512", "username": "muster", "password": "p"},
		},
		"redis": map[string]any{"bundled": false, "url": "rediss://r.example:6380/0"},
	})
}

// certified are the values of external servers that require client certificates.
func certified() map[string]any {
	named := func(secret string) map[string]any {
		return map[string]any{"clientCert": map[string]any{"secret": secret}}
	}
	return merge(external(), map[string]any{
		"kafka": map[string]any{"tls": false, "caSecret": "",
			"clientCert": map[string]any{"secret": "kafka-user", "cert": "user.crt", "key": "user.key"}},
		"clickhouse": named("ch-user"), "redis": named("redis-user"),
	})
}

// variants are the values of installations with different external components.
func variants() map[string]map[string]any {
	return map[string]map[string]any{
		"bundled":   needed(),
		"sharded":   sharded(),
		"external":  external(),
		"certified": certified(),
		"existing secret": {
			"secrets": map[string]any{"existing": "vault"},
		},
		"small": merge(needed(), map[string]any{
			"clickhouse":        map[string]any{"shards": 1, "replicas": 1, "keeper": map[string]any{"replicas": 1}},
			"kafka":             map[string]any{"replicas": 1},
			"networkPolicy":     map[string]any{"enabled": false},
			"disruptionBudgets": map[string]any{"enabled": false},
			"services": map[string]any{
				"projector": map[string]any{"autoscaling": map[string]any{"enabled": false}},
			},
		}),
		"everything": merge(needed(), map[string]any{
			"logLevel": "debug", "caSecret": "authorities", "erasureDeadline": "1h30m",
			"webhookAllow": []any{"10.1.0.0/16", "fd00::/8"},
			"corsOrigins":  []any{"https://app.example", "http://localhost:3000"},
			"adminHosts":   []any{"metrics.example"},
			"clickhouse":   map[string]any{"shards": 12, "replicas": 3},
			"openSearch":   map[string]any{"enabled": true, "url": "https://u:p@search.example:9200"},
			"image": map[string]any{"repository": "registry.example/muster", "digest": "sha256:" +
				strings.Repeat("a", 64)},
			"ingress": map[string]any{"enabled": true, "host": "api.example", "className": "nginx",
				"tlsSecret": "tls", "annotations": map[string]any{"a": "b"}},
			"monitoring": map[string]any{"podMonitor": true, "prometheusRule": true, "grafanaDashboard": true,
				"tracesEndpoint": "http://otel:4318"},
			"nodeSelector": map[string]any{"disk": "nvme"},
			"tolerations":  []any{map[string]any{"key": "data", "operator": "Exists"}},
			"services": map[string]any{"discovery-worker": map[string]any{"env": map[string]any{
				"MUSTER_LLM_URL": "http://vllm:8000/v1",
				"MUSTER_LLM_API_KEY": map[string]any{
					"valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "model", "key": "key"}},
				},
			}}},
		}),
	}
}

func matches(t *testing.T, selector *metav1.LabelSelector, named map[string]string) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	require.NoError(t, err)
	return s.Matches(labels.Set(named))
}

func TestChart_ObjectsAreConsistent(t *testing.T) {
	for name, values := range variants() {
		t.Run(name, func(t *testing.T) {
			o := render(t, values)
			for _, service := range []string{"ingest", "projector", "query-api", "discovery-worker", "webhook-sender"} {
				require.Contains(t, o.workloads, release+"-"+service)
			}
			for _, w := range o.workloads {
				o.checkWorkload(t, w)
			}
			for _, s := range o.services {
				var behind []workload
				for _, w := range o.workloads {
					if labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(w.pod.Labels)) {
						behind = append(behind, w)
					}
				}
				require.NotEmpty(t, behind, "no pods for %s", s.Name)
				for _, w := range behind {
					for _, p := range s.Spec.Ports {
						require.Contains(t, portsOf(w), p.TargetPort.StrVal, "%s: %s", s.Name, w.name)
					}
				}
			}
			for _, h := range o.scalers {
				w, ok := o.workloads[h.Spec.ScaleTargetRef.Name]
				require.True(t, ok, h.Name)
				require.Equal(t, w.kind, h.Spec.ScaleTargetRef.Kind)
				require.Nil(t, w.replicas, "%s: the autoscaler alone sets the number of replicas", h.Name)
				require.LessOrEqual(t, *h.Spec.MinReplicas, h.Spec.MaxReplicas, h.Name)
			}
			for _, b := range o.budgets {
				n := 0
				for _, w := range o.workloads {
					if matches(t, b.Spec.Selector, w.pod.Labels) {
						n++
					}
				}
				require.Equal(t, 1, n, "workloads of the budget %s", b.Name)
			}
			for _, i := range o.ingresses {
				backend := i.Spec.Rules[0].HTTP.Paths[0].Backend.Service
				require.Contains(t, o.services, backend.Name)
				require.Equal(t, backend.Port.Name, o.services[backend.Name].Spec.Ports[0].Name)
			}
		})
	}
}

func portsOf(w workload) map[string]int32 {
	out := map[string]int32{}
	for _, c := range w.pod.Spec.Containers {
		for _, p := range c.Ports {
			out[p.Name] = p.ContainerPort
		}
	}
	return out
}

func (o *objects) checkWorkload(t *testing.T, w workload) {
	t.Helper()
	require.True(t, matches(t, w.selector, w.pod.Labels), "%s selects its own pods", w.name)
	for _, other := range o.workloads {
		if other.name != w.name {
			require.False(t, matches(t, w.selector, other.pod.Labels), "%s selects the pods of %s", w.name, other.name)
		}
	}
	if w.kind == "StatefulSet" {
		s, ok := o.services[w.service]
		require.True(t, ok, "%s: the service %s", w.name, w.service)
		require.Equal(t, "None", s.Spec.ClusterIP)
		require.True(t, labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(w.pod.Labels)))
	}
	spec := w.pod.Spec
	require.Contains(t, o.accounts, spec.ServiceAccountName)
	require.False(t, *spec.AutomountServiceAccountToken, "%s does not use the Kubernetes API", w.name)
	require.True(t, *spec.SecurityContext.RunAsNonRoot, w.name)
	require.Positive(t, *spec.SecurityContext.RunAsUser, w.name)
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, spec.SecurityContext.SeccompProfile.Type)
	volumes := map[string]bool{}
	for _, claim := range w.claims {
		volumes[claim] = true
	}
	for _, v := range spec.Volumes {
		require.False(t, volumes[v.Name], "%s has the volume %s twice", w.name, v.Name)
		volumes[v.Name] = true
		require.Nil(t, v.HostPath)
		if v.ConfigMap != nil {
			require.Contains(t, o.configMaps, v.ConfigMap.Name)
			for _, item := range v.ConfigMap.Items {
				require.Contains(t, o.configMaps[v.ConfigMap.Name].Data, item.Key, w.name)
			}
		}
	}
	for _, c := range append(append([]corev1.Container{}, spec.InitContainers...), spec.Containers...) {
		s := c.SecurityContext
		require.True(t, *s.RunAsNonRoot, c.Name)
		require.False(t, *s.AllowPrivilegeEscalation, c.Name)
		require.Equal(t, []corev1.Capability{"ALL"}, s.Capabilities.Drop, c.Name)
		require.Equal(t, c.Name != "kafka", *s.ReadOnlyRootFilesystem, c.Name)
		require.NotEmpty(t, c.Resources.Requests.Cpu().String(), c.Name)
		require.False(t, c.Resources.Requests.Memory().IsZero(), c.Name)
		require.False(t, c.Resources.Limits.Memory().IsZero(), c.Name)
		require.Regexp(t, `^[a-z0-9./-]+(:\d[\w.-]*|@sha256:[0-9a-f]{64})$`, c.Image, "an image of one version")
		for _, m := range c.VolumeMounts {
			require.True(t, volumes[m.Name], "%s: %s", c.Name, m.Name)
			require.Empty(t, m.SubPath, "%s: a running pod does not see changes of %s", c.Name, m.MountPath)
		}
		o.checkSecrets(t, c)
	}
	ports := portsOf(w)
	for _, c := range spec.Containers {
		require.NotNil(t, c.ReadinessProbe, c.Name)
		require.NotNil(t, c.LivenessProbe, c.Name)
		for _, probe := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
			if probe == nil {
				continue
			}
			if probe.Exec != nil {
				require.Equal(t, []string{"sh", "-c"}, probe.Exec.Command[:2], c.Name)
				continue
			}
			var port intstr.IntOrString
			if probe.HTTPGet != nil {
				port = probe.HTTPGet.Port
			} else {
				port = probe.TCPSocket.Port
			}
			require.Contains(t, ports, port.StrVal, "%s: a probe's port", c.Name)
		}
	}
}

// checkSecrets looks up every key that a container reads in the secret of the chart.
func (o *objects) checkSecrets(t *testing.T, c corev1.Container) {
	t.Helper()
	seen := map[string]bool{}
	for _, e := range c.Env {
		require.False(t, seen[e.Name], "%s has %s twice", c.Name, e.Name)
		seen[e.Name] = true
		if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
			for _, word := range []string{"PASSWORD", "SECRET", "TOKEN", "DSN", "API_KEY"} {
				require.NotContains(t, e.Name, word, "%s: in the open", c.Name)
			}
			continue
		}
		ref := e.ValueFrom.SecretKeyRef
		if ref.Name == "vault" || ref.Name == "model" {
			continue
		}
		require.Contains(t, o.secrets, ref.Name)
		require.Contains(t, o.secrets[ref.Name].StringData, ref.Key, c.Name)
	}
}

func TestChart_ContainerCommandsAreValid(t *testing.T) {
	var source, migrate string
	for _, file := range []string{"main", "run", "erase", "webhook", "migrate"} {
		text, err := os.ReadFile("../cmd/muster/" + file + ".go")
		require.NoError(t, err)
		source += string(text)
		if file == "migrate" {
			migrate = string(text)
		}
	}
	o := render(t, variants()["everything"])
	for _, service := range []string{"ingest", "projector", "query-api", "discovery-worker", "webhook-sender"} {
		spec := o.workloads[release+"-"+service].pod.Spec
		args := spec.Containers[0].Args
		require.Equal(t, []string{"run", service}, args[:2])
		require.Contains(t, source, `{"`+service+`", `)
		for _, arg := range args[2:] {
			flag, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			require.Contains(t, source, `"`+flag+`"`)
		}
		require.Equal(t, []string{"migrate", "--cluster", "muster", "--log-level=debug"}, spec.InitContainers[0].Args)
		require.Contains(t, args, "--log-level=debug")
		require.Equal(t, service == "projector", slices.Contains(args, "--erasure-deadline=1h30m"), service)
		require.Contains(t, args, "--admin-hosts="+release+"-query-api-pods,*.svc,*.svc.cluster.local,metrics.example")
		require.Equal(t, service == "query-api" || service == "webhook-sender",
			slices.Contains(args, "--webhook-allow=10.1.0.0/16,fd00::/8"), service)
		require.Equal(t, service == "query-api",
			slices.Contains(args, "--cors-origin=https://app.example,http://localhost:3000"), service)
		for _, c := range []corev1.Container{spec.InitContainers[0], spec.Containers[0]} {
			require.Contains(t, c.Env, corev1.EnvVar{Name: "SSL_CERT_DIR", Value: "/etc/muster/ca"})
			require.Contains(t, c.VolumeMounts,
				corev1.VolumeMount{Name: "ca", MountPath: "/etc/muster/ca", ReadOnly: true})
		}
		require.Equal(t, service == "ingest", slices.Contains(args, "--stateless"),
			"its directory is limited in size, and not shared by replicas")
	}
	require.Contains(t, migrate, `"cluster"`)
}

func TestChart_MountsClientCertificates(t *testing.T) {
	o := render(t, certified())
	for _, service := range []string{"ingest", "projector", "query-api", "discovery-worker", "webhook-sender"} {
		spec := o.workloads[release+"-"+service].pod.Spec
		for _, c := range []corev1.Container{spec.InitContainers[0], spec.Containers[0]} {
			require.Contains(t, c.Env, corev1.EnvVar{Name: "KAFKA_TLS", Value: "true"}, "implied by a certificate")
			for name, want := range map[string]struct{ secret, cert, key string }{
				"kafka": {"kafka-user", "user.crt", "user.key"}, "clickhouse": {"ch-user", "tls.crt", "tls.key"},
				"redis": {"redis-user", "tls.crt", "tls.key"},
			} {
				folder := "/etc/muster/" + name + "-cert"
				require.Contains(t, c.Env,
					corev1.EnvVar{Name: strings.ToUpper(name) + "_TLS_CERT_FILE", Value: folder + "/" + want.cert})
				require.Contains(t, c.Env,
					corev1.EnvVar{Name: strings.ToUpper(name) + "_TLS_KEY_FILE", Value: folder + "/" + want.key})
				require.Contains(t, c.VolumeMounts,
					corev1.VolumeMount{Name: name + "-cert", MountPath: folder, ReadOnly: true})
				require.Contains(t, spec.Volumes,
					corev1.Volume{Name: name + "-cert",
						VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: want.secret}}})
			}
		}
	}
	text := fmt.Sprint(render(t,
		merge(certified(),
			map[string]any{"kafka": map[string]any{"bundled": true},
				"redis": map[string]any{"bundled": true, "password": "p"}})).workloads)
	require.NotContains(t, text, "kafka-cert", "bundled servers need no certificates")
	require.NotContains(t, text, "redis-cert")
	require.Contains(t, text, "clickhouse-cert")
}

// Kubernetes may send calls until it has removed the endpoint. Running calls have the program's time to finish.
func TestChart_PodsServeCallsWhileStopping(t *testing.T) {
	o := render(t, needed())
	for name, w := range o.workloads {
		service := strings.TrimPrefix(name, release+"-")
		c := w.pod.Spec.Containers[0]
		if service != "query-api" && service != "ingest" {
			require.Nil(t, c.Lifecycle, name)
			continue
		}
		require.GreaterOrEqual(t, c.Lifecycle.PreStop.Sleep.Seconds, int64(5), name)
		require.GreaterOrEqual(t, *w.pod.Spec.TerminationGracePeriodSeconds, c.Lifecycle.PreStop.Sleep.Seconds+15, name)
	}
}

func TestChart_RedisMemoryIsBelowTheContainerLimit(t *testing.T) {
	for limit, want := range map[any]string{
		"1Gi": "805306368", "1.5Gi": "1207959552", "512Mi": "402653184", "2G": "1500000000", "1000000Ki": "768000000",
		1073741824.0: "805306368", "1073741824": "805306368",
	} {
		o := render(t,
			merge(
				needed(),
				map[string]any{
					"redis": map[string]any{"resources": map[string]any{"limits": map[string]any{"memory": limit}}},
				},
			))
		args := o.workloads[release+"-redis"].pod.Spec.Containers[0].Args
		i := slices.Index(args, "--maxmemory")
		require.Positive(t, i)
		require.Equal(t, want, args[i+1], limit)
		require.Equal(t, []string{"--maxmemory-policy", "noeviction"}, args[i+2:])
	}
	_, err := template(merge(
		needed(),
		map[string]any{
			"redis": map[string]any{"resources": map[string]any{"limits": map[string]any{"memory": "much"}}},
		},
	))
	require.ErrorContains(t, err, "redis.resources.limits.memory")
}

func TestChart_SeveralShardsNeedOpenSearch(t *testing.T) {
	values := sharded()
	delete(values, "openSearch")
	_, err := template(values)
	require.ErrorContains(t, err, "clickhouse.shards: several shards need openSearch.enabled")
}

// Neither the first installation, which has no tables, nor an unavailable Keeper blocks a server.
func TestChart_ServersWithoutTablesAreNotReady(t *testing.T) {
	o := render(t, needed())
	command := o.workloads[release+"-clickhouse-0"].pod.Spec.Containers[0].StartupProbe.Exec.Command
	for name, c := range map[string]struct {
		ping, tables string // output of the client
		ready        bool
	}{
		"does not respond yet": {"echo refused; exit 210", "exit 210", false},
		"has tables":           {"echo 1", "true", true},
		"lacks tables":         {"echo 1", "echo lacking", false},
		"no server has tables": {"echo 1", "echo 'Code: 999. No node'; exit 231", true},
		"times out":            {"echo 1", "exit 124", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			client := "#!/bin/sh\n[ \"$CLICKHOUSE_PASSWORD\" = \"it's \\$ecret\" ] || exit 98\n" +
				"[ \"$*\" = \"--user muster --query SELECT 1\" ] && { " + c.ping + "; exit $?; }\n" +
				"case \"$4\" in */clickhouse/tables/01/muster\\'*) ;; *) exit 99;; esac\n" + c.tables + "\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, "clickhouse-client"), []byte(client), 0o700))
			probe := exec.Command(command[0], command[1:]...)
			probe.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "CLICKHOUSE_PASSWORD=it's $ecret",
				"CLICKHOUSE_SHARD=01"}
			out, err := probe.CombinedOutput()
			require.Equal(t, c.ready, err == nil, "%s", out)
		})
	}
	require.Contains(t, command[2], "network_people_local", "a table of the first migration")
}

// The projector scales by this metric, which the adapter serves.
func TestChart_LagIsAMetricOfTheConsumers(t *testing.T) {
	require.Len(t, render(t, needed()).scalers[release+"-projector"].Spec.Metrics, 1,
		"without the adapter, an autoscaler with that metric never scales down")
	o := render(t,
		merge(
			needed(),
			map[string]any{
				"services": map[string]any{"projector": map[string]any{"autoscaling": map[string]any{"lagSeconds": 5}}},
			},
		))
	h := o.scalers[release+"-projector"]
	metric := h.Spec.Metrics[1].Pods.Metric.Name
	source, err := os.ReadFile("../../platform/bus/metrics.go")
	require.NoError(t, err)
	require.Contains(t, string(source), `"`+strings.TrimPrefix(metric, "muster_consumer_")+`"`)
	adapter, err := os.ReadFile("prometheus-adapter.yaml")
	require.NoError(t, err)
	require.Contains(t, string(adapter), "max("+metric+"{")
	topics, err := os.ReadFile("../../schemas/event/topic.go")
	require.NoError(t, err)
	require.Contains(t, string(topics), fmt.Sprintf("wide   = %d", h.Spec.MaxReplicas),
		"no more projectors than partitions")
}

func TestChart_MonitoringEqualsCompose(t *testing.T) {
	o := render(t, variants()["everything"])
	require.Contains(t, o.foreign, "PodMonitor")
	groups := o.foreign["PrometheusRule"]["spec"].(map[string]any)["groups"].([]any)
	require.NotEmpty(t, groups[0].(map[string]any)["rules"])
	dashboard, err := os.ReadFile("../compose/grafana/muster.json")
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(dashboard)),
		strings.TrimSpace(o.configMaps[release+"-dashboard"].Data["muster.json"]))
}

func TestChart_RejectsInvalidValues(t *testing.T) {
	for name, c := range map[string]struct {
		values map[string]any
		want   string
	}{
		"nothing":       {nil, "openssl rand"},
		"a misspelling": {merge(needed(), map[string]any{"clickhuse": map[string]any{}}), "clickhuse"},
		"no shards":     {merge(needed(), map[string]any{"clickhouse": map[string]any{"shards": 0}}), "shards"},
		"two keepers": {merge(needed(),
			map[string]any{"clickhouse": map[string]any{"keeper": map[string]any{"replicas": 2}}}), "keeper"},
		"a short key": {merge(needed(), map[string]any{"secrets": map[string]any{"secretKey": "short"}}),
			"secretKey"},
		"no brokers": {merge(external(), map[string]any{"kafka": map[string]any{"brokers": []any{}}}),
			"kafka.brokers"},
		"no password": {merge(needed(), map[string]any{"clickhouse": map[string]any{"password": ""}}),
			"clickhouse.password"},
		"lag scaling of ingest": {merge(needed(),
			map[string]any{"services": map[string]any{"ingest": map[string]any{"autoscaling": map[string]any{"lagSeconds": 5}}}}), "lagSeconds"},
		"no service": {merge(needed(),
			map[string]any{"networkPolicy": map[string]any{"extraEgress": map[string]any{"discovery": []any{}}}}),
			"extraEgress"},
		"no host": {merge(needed(), map[string]any{"ingress": map[string]any{"enabled": true}}),
			"ingress.host"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := template(c.values)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestChart_ClickHouseConfigurationNamesEveryPod(t *testing.T) {
	o := render(t, variants()["everything"])
	config := o.configMaps[release+"-clickhouse"].Data
	for name, text := range config {
		for d := xml.NewDecoder(strings.NewReader(text)); ; {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, name)
		}
	}
	pods := func(component, domain string) (out []string) {
		for _, w := range o.workloads {
			if w.pod.Labels["app.kubernetes.io/component"] == component {
				for i := range *w.replicas {
					out = append(out, fmt.Sprintf("%s-%d.%s-%s.%s.svc", w.name, w.start+i, release, domain, namespace))
				}
			}
		}
		return out
	}
	var cluster struct {
		Shards []struct {
			InternalReplication bool `xml:"internal_replication"`
			Replicas            []struct {
				Host string `xml:"host"`
				Port int32  `xml:"port"`
			} `xml:"replica"`
		} `xml:"remote_servers>muster>shard"`
		Keepers []struct {
			Host string `xml:"host"`
		} `xml:"zookeeper>node"`
	}
	require.NoError(t, xml.Unmarshal([]byte(config["cluster.xml"]), &cluster))
	require.Len(t, cluster.Shards, 12)
	var hosts, keepers []string
	for _, s := range cluster.Shards {
		require.True(t, s.InternalReplication)
		require.Len(t, s.Replicas, 3)
		for _, r := range s.Replicas {
			hosts = append(hosts, r.Host)
			require.EqualValues(t, 9000, r.Port)
		}
	}
	for _, k := range cluster.Keepers {
		keepers = append(keepers, k.Host)
	}
	require.ElementsMatch(t, pods("clickhouse", "clickhouse"), hosts)
	require.ElementsMatch(t, pods("keeper", "keeper"), keepers)
	var keeper struct {
		Servers []struct {
			ID   int    `xml:"id"`
			Host string `xml:"hostname"`
		} `xml:"keeper_server>raft_configuration>server"`
	}
	require.NoError(t, xml.Unmarshal([]byte(config["keeper.xml"]), &keeper))
	for _, s := range keeper.Servers {
		require.Contains(t, s.Host, fmt.Sprintf("keeper-%d.", s.ID), "the ID is the index of the pod")
	}
	// The pod has every variable that the files read.
	for file, w := range map[string]string{"cluster.xml": "acme-clickhouse-0", "users.xml": "acme-clickhouse-0",
		"keeper.xml": "acme-keeper"} {
		have := map[string]bool{}
		for _, e := range o.workloads[w].pod.Spec.Containers[0].Env {
			have[e.Name] = true
		}
		for _, m := range regexp.MustCompile(`from_env="(\w+)"`).FindAllStringSubmatch(config[file], -1) {
			require.True(t, have[m[1]], "%s reads %s", file, m[1])
		}
	}
	dsn := o.secrets[release+"-secrets"].StringData["clickhouse-dsn"]
	require.Equal(t, "http://muster:pass%2Fword@acme-clickhouse-http.people.svc:8123/muster", dsn)
}

func TestChart_KafkaConfigurationNamesEveryPod(t *testing.T) {
	o := render(t, needed())
	kafka := o.workloads[release+"-kafka"]
	env := map[string]string{}
	for _, e := range kafka.pod.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	require.Equal(
		t,
		"1@acme-kafka-1.acme-kafka.people.svc:9093,2@acme-kafka-2.acme-kafka.people.svc:9093,3@acme-kafka-3.acme-kafka.people.svc:9093",
		env["KAFKA_CONTROLLER_QUORUM_VOTERS"],
	)
	require.Equal(t, "PLAINTEXT://$(POD_NAME).acme-kafka.people.svc:9092", env["KAFKA_ADVERTISED_LISTENERS"])
	require.EqualValues(t, 1, kafka.start)
	for _, e := range o.workloads[release+"-projector"].pod.Spec.Containers[0].Env {
		if e.Name == "KAFKA_BROKERS" {
			require.Equal(
				t,
				"acme-kafka-1.acme-kafka.people.svc:9092,acme-kafka-2.acme-kafka.people.svc:9092,acme-kafka-3.acme-kafka.people.svc:9092",
				e.Value,
			)
		}
	}
}
