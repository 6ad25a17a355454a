package recipes

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

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
