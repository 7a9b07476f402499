package kubernetes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// All users of a node can see the arguments of its processes, and of those that they start.
func TestPasswords_AreNotArguments(t *testing.T) {
	for name, w := range render(t, needed()).workloads {
		for _, c := range append(w.pod.Spec.InitContainers, w.pod.Spec.Containers...) {
			secret := map[string]bool{}
			for _, e := range c.Env {
				secret[e.Name] = e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil
			}
			words := append(slices.Clone(c.Command), c.Args...)
			for _, p := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
				if p != nil && p.Exec != nil {
					words = append(words, p.Exec.Command...)
				}
			}
			for _, word := range words {
				require.NotContains(t, word, "--password", name)
				require.NotContains(t, word, "--requirepass", name)
				for _, m := range regexp.MustCompile(`\$\((\w+)\)`).FindAllStringSubmatch(word, -1) {
					require.False(t, secret[m[1]], "%s: Kubernetes writes %s into the arguments", name, m[1])
				}
			}
		}
	}
}

// The password may have any characters.
func TestPasswords_RedisReadsItFromItsConfiguration(t *testing.T) {
	c := render(t, needed()).workloads[release+"-redis"].pod.Spec.Containers[0]
	dir := t.TempDir()
	// A dash as the last argument means standard input for Redis.
	server := "#!/bin/sh\nfor last; do :; done\n[ \"$last\" = - ] && [ \"$1 $2 $3 $4\" = '--save  --appendonly no' " +
		"] && cat\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "redis-server"), []byte(server), 0o700))
	run := exec.Command(c.Command[0], append(c.Command[1:], c.Args...)...)
	run.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), `REDIS_PASSWORD=a"b\c $HOME 'd' & e`}
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, `requirepass "a\"b\\c $HOME 'd' & e"`+"\n", string(out))
}
