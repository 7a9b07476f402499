package kubernetes_test

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	sigsyaml "sigs.k8s.io/yaml"
)

const (
	release   = "acme"
	namespace = "people"
)

// workload is a Deployment or StatefulSet.
type workload struct {
	kind, name string
	replicas   *int32
	selector   *metav1.LabelSelector
	pod        corev1.PodTemplateSpec
	claims     []string
	service    string
	start      int32
}

// objects are the rendered objects of a chart.
type objects struct {
	workloads  map[string]workload
	services   map[string]*corev1.Service
	secrets    map[string]*corev1.Secret
	configMaps map[string]*corev1.ConfigMap
	accounts   map[string]*corev1.ServiceAccount
	budgets    map[string]*policyv1.PodDisruptionBudget
	scalers    map[string]*autoscalingv2.HorizontalPodAutoscaler
	policies   map[string]*networkingv1.NetworkPolicy
	ingresses  map[string]*networkingv1.Ingress
	// foreign are the objects of kinds that are not part of Kubernetes, by kind.
	foreign map[string]map[string]any
}

// needed returns the minimum values of an installation.
func needed() map[string]any {
	return map[string]any{
		"secrets":    map[string]any{"secretKey": strings.Repeat("0f", 32), "operatorToken": "token"},
		"clickhouse": map[string]any{"password": "pass/word", "clusterSecret": "shards"},
		"redis":      map[string]any{"password": "redis"},
	}
}

// merge merges maps recursively; values of over win.
func merge(under, over map[string]any) map[string]any {
	out := maps.Clone(under)
	for key, value := range over {
		below, wasMap := out[key].(map[string]any)
		if above, isMap := value.(map[string]any); isMap && wasMap {
			value = merge(below, above)
		}
		out[key] = value
	}
	return out
}

func template(values map[string]any) (map[string]string, error) {
	chart, err := loader.Load("muster")
	if err != nil {
		return nil, err
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = common.KubeVersion{Version: "v1.33.0", Major: "1", Minor: "33"}
	options := common.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, values, options, capabilities) // validates values.schema.json
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// render renders the chart, and decodes every object with its Kubernetes type. Unknown fields are errors.
func render(t *testing.T, values map[string]any) objects {
	t.Helper()
	files, err := template(values)
	require.NoError(t, err)
	out := objects{
		workloads: map[string]workload{}, services: map[string]*corev1.Service{}, secrets: map[string]*corev1.Secret{},
		configMaps: map[string]*corev1.ConfigMap{}, accounts: map[string]*corev1.ServiceAccount{},
		budgets:  map[string]*policyv1.PodDisruptionBudget{},
		scalers:  map[string]*autoscalingv2.HorizontalPodAutoscaler{},
		policies: map[string]*networkingv1.NetworkPolicy{}, ingresses: map[string]*networkingv1.Ingress{},
		foreign: map[string]map[string]any{},
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(path, ".yaml") {
			require.NotContains(t, files[path], "<no value>", path)
			continue
		}
		reader := yaml.NewYAMLReader(newBuffered(files[path]))
		for {
			doc, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, path)
			var meta metav1.TypeMeta
			require.NoError(t, sigsyaml.Unmarshal(doc, &meta), "%s\n%s", path, doc)
			if meta.Kind == "" {
				continue // only comments
			}
			require.NotContains(t, string(doc), "<no value>", path)
			if strings.HasPrefix(meta.APIVersion, "monitoring.coreos.com/") {
				var object map[string]any
				require.NoError(t, sigsyaml.UnmarshalStrict(doc, &object), path)
				out.foreign[meta.Kind] = object
				continue
			}
			object, _, err := decoder.Decode(doc, nil, nil)
			require.NoError(t, err, "%s\n%s", path, doc)
			out.add(t, object)
		}
	}
	return out
}

func put[T any](t *testing.T, into map[string]T, name string, object T) {
	t.Helper()
	require.LessOrEqual(t, len(name), 63, name)
	_, twice := into[name]
	require.False(t, twice, "duplicate object name %s", name)
	into[name] = object
}

func (o *objects) add(t *testing.T, object runtime.Object) {
	t.Helper()
	switch v := object.(type) {
	case *appsv1.Deployment:
		put(t, o.workloads, v.Name,
			workload{kind: "Deployment", name: v.Name, replicas: v.Spec.Replicas, selector: v.Spec.Selector,
				pod: v.Spec.Template})
	case *appsv1.StatefulSet:
		w := workload{
			kind: "StatefulSet", name: v.Name, replicas: v.Spec.Replicas, selector: v.Spec.Selector,
			pod:     v.Spec.Template,
			service: v.Spec.ServiceName,
		}
		for _, claim := range v.Spec.VolumeClaimTemplates {
			w.claims = append(w.claims, claim.Name)
		}
		if v.Spec.Ordinals != nil {
			w.start = v.Spec.Ordinals.Start
		}
		put(t, o.workloads, v.Name, w)
	case *corev1.Service:
		put(t, o.services, v.Name, v)
	case *corev1.Secret:
		put(t, o.secrets, v.Name, v)
	case *corev1.ConfigMap:
		put(t, o.configMaps, v.Name, v)
	case *corev1.ServiceAccount:
		put(t, o.accounts, v.Name, v)
	case *policyv1.PodDisruptionBudget:
		put(t, o.budgets, v.Name, v)
	case *autoscalingv2.HorizontalPodAutoscaler:
		put(t, o.scalers, v.Name, v)
	case *networkingv1.NetworkPolicy:
		put(t, o.policies, v.Name, v)
	case *networkingv1.Ingress:
		put(t, o.ingresses, v.Name, v)
	default:
		t.Fatalf("untested object type %T", object)
	}
}
