package recipes

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

// decode decodes an object in YAML or JSON with the types of Kubernetes. It refuses unknown fields.
func decode[T runtime.Object](t *testing.T, text string) (object T) {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	decoded, _, err := decoder.Decode([]byte(text), nil, nil)
	require.NoError(t, err)
	require.IsType(t, object, decoded)
	return decoded.(T)
}

// The manifests of examples/endpointslice are those of one program, and allow what it does.
func TestEndpointSliceManifests(t *testing.T) {
	text, err := os.ReadFile("../../examples/endpointslice/endpointslice.yaml")
	require.NoError(t, err)
	parts := strings.Split(string(text), "\n---\n")
	require.Len(t, parts, 5)
	service := decode[*corev1.Service](t, parts[0])
	account := decode[*corev1.ServiceAccount](t, parts[1])
	role := decode[*rbacv1.Role](t, parts[2])
	binding := decode[*rbacv1.RoleBinding](t, parts[3])
	deployment := decode[*appsv1.Deployment](t, parts[4])

	text, err = os.ReadFile("../../examples/endpointslice/testdata/slice.json") // the program's test has compared it
	require.NoError(t, err)
	slice := decode[*discoveryv1.EndpointSlice](t, string(text))

	require.Empty(t, service.Spec.Selector)
	require.Equal(t, service.Name, slice.Labels[discoveryv1.LabelServiceName])
	require.NotContains(t, slice.Labels[discoveryv1.LabelManagedBy], "k8s.io")
	require.Len(t, service.Spec.Ports, 1)
	require.Empty(t, service.Spec.Ports[0].Name)
	require.Nil(t, slice.Ports[0].Name)
	require.Equal(t, service.Spec.Ports[0].TargetPort.IntVal, *slice.Ports[0].Port)
	for key := range slice.Annotations {
		require.Empty(t, content.IsLabelKey(key))
	}

	require.Equal(t, rbacv1.Subject{Kind: "ServiceAccount", Name: account.Name}, binding.Subjects[0])
	require.Equal(t, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}, binding.RoleRef)
	allowed := map[string][]string{}
	for _, rule := range role.Rules {
		require.Equal(t, []string{discoveryv1.GroupName}, rule.APIGroups)
		require.Equal(t, []string{"endpointslices"}, rule.Resources)
		for _, verb := range rule.Verbs {
			allowed[verb] = rule.ResourceNames
		}
	}
	require.Equal(t, map[string][]string{"get": {slice.Name}, "update": {slice.Name}, "create": nil}, allowed)

	pod := deployment.Spec.Template
	require.Equal(t, account.Name, pod.Spec.ServiceAccountName)
	require.Equal(t, deployment.Spec.Selector.MatchLabels, pod.Labels)
	require.Equal(t, "POD_IP", pod.Spec.Containers[0].Env[0].Name)
	require.Contains(t, pod.Spec.Containers[0].Args, "-service="+service.Name)
}

// The pod of examples/lifeline has its lifeline as a sidecar, which starts before the program and ends after it.
func TestLifelinePod(t *testing.T) {
	text, err := os.ReadFile("../../examples/lifeline/pod.yaml")
	require.NoError(t, err)
	pod := decode[*corev1.Pod](t, string(text))
	require.Len(t, pod.Spec.InitContainers, 1)
	sidecar := pod.Spec.InitContainers[0]
	require.Equal(t, corev1.ContainerRestartPolicyAlways, *sidecar.RestartPolicy)
	require.Equal(t, sidecar.VolumeMounts, pod.Spec.Containers[0].VolumeMounts)
	require.NotNil(t, pod.Spec.SecurityContext.RunAsUser, "the two have the same user")
}
