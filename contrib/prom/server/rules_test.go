package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAlerts: the rules are in order, and fire as alerts_test.yaml says.
func TestAlerts(t *testing.T) {
	said, err := promtool(t, nil, "check", "rules", "../alerts.yaml")
	require.NoError(t, err, said)
	said, err = promtool(t, nil, "test", "rules", "../alerts_test.yaml")
	require.NoError(t, err, said)
}

// TestWrongAlerts: alerts_test.yaml notices each of these mistakes, or it proves nothing.
func TestWrongAlerts(t *testing.T) {
	right, err := os.ReadFile("../alerts.yaml")
	require.NoError(t, err)
	tests, err := os.ReadFile("../alerts_test.yaml")
	require.NoError(t, err)
	scenes := strings.Split(string(tests), "\n  - name: ")
	of := func(alert string) string { // those of one alert take a quarter of the time
		kept := scenes[:1:1]
		for _, scene := range scenes[1:] {
			if strings.Contains(scene, "alertname: "+alert) {
				kept = append(kept, scene)
			}
		}
		require.Greater(t, len(kept), 1, alert)
		return strings.Join(kept, "\n  - name: ")
	}
	for _, mistake := range []struct{ alert, old, wrong string }{
		{"NoLeader", "for: 1m", "for: 15s"},
		{"NoLeader", "for: 1m", "for: 2m"},
		{"NoLeader", "max by (election) (leadership_is_leader) == 0", "min by (election) (leadership_is_leader) == 0"},
		{"NoLeader", "max by (election) (leadership_is_leader) == 0", "max(leadership_is_leader) == 0"},
		{"NoLeader", "unless", "and"},
		{"NoLeader", "[1h]", "[2h]"},
		{"TwoLeaders", "for: 1m", "for: 0s"},
		{"TwoLeaders", "for: 1m", "for: 2m"},
		{"TwoLeaders", "> 1", "> 2"},
		{"TwoLeaders", "> 1", "> 0"},
		{"TwoLeaders", "sum by (election)", "sum"},
		{"Flapping", ">= 4", ">= 3"},
		{"Flapping", ">= 4", ">= 5"},
		{"Flapping", "sum by (election)", "max by (election)"},
		{"Flapping", "increase(", "delta("},
		{"Flapping", "[15m]", "[30m]"},
		{"WindingDownStuck", "for: 1m", "for: 30s"},
		{"WindingDownStuck", "== 1", ">= 0"},
		{"WindingDownStuck", "winding_down", "taking_over"},
		{"TakeoverSlow", "for: 1m", "for: 30s"},
		{"TakeoverSlow", "== 1", ">= 0"},
		{"TakeoverSlow", "taking_over", "leading"},
		{"RenewalsSlow", "0.9", "0.99"},
		{"RenewalsSlow", "0.9", "0.1"},
		{"RenewalsSlow", "/ 8", "/ 80"},
		{"RenewalsSlow", "/ 8", ""},
		{"RenewalsSlow", ">= 2", ">= 1"},
		{"RenewalsSlow", ">= 2", ">= 3"},
		{"RenewalsSlow", "for: 5m", "for: 0s"},
		{"RenewalsSlow", "min by (job, instance)", "min by (job, instance, election)"},
	} {
		t.Run(mistake.alert+" "+mistake.wrong, func(t *testing.T) {
			t.Parallel()
			alert := "Leadership" + mistake.alert
			before, rule, ok := strings.Cut(string(right), "- alert: "+alert)
			require.True(t, ok)
			rule, after, _ := strings.Cut(rule, "- alert: ")
			require.Contains(t, rule, mistake.old)
			wrong := before + "- alert: " + alert + strings.Replace(rule, mistake.old, mistake.wrong, 1)
			if after != "" {
				wrong += "- alert: " + after
			}
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts.yaml"), []byte(wrong), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts_test.yaml"), []byte(of(alert)), 0o600))
			said, err := promtool(t, nil, "test", "rules", filepath.Join(dir, "alerts_test.yaml"))
			require.Error(t, err)
			require.Contains(t, said, ": "+alert) // it parses, and this alert is wrong
		})
	}
}
