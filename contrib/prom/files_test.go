package prom_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/metrics"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// rules is a file of rules, or of their tests.
type rules struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr         string
			Labels, Annotations map[string]string
		}
	}
	Tests []struct {
		Cases []struct {
			Alert    string `yaml:"alertname"`
			Expected []any  `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	}
}

func readRules(t *testing.T, path string) (r rules) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &r))
	return r
}

// dashboard is what matters here of a dashboard of Grafana.
type dashboard struct {
	Panels []struct {
		ID                 int
		Title, Description string
		GridPos            struct{ X, Y, W, H int }
		Targets            []struct{ Expr string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

// TestAlertsNameWhatThereIs: each alert says what is wrong, names series that exist, and is tested with and without a cause.
// That the expressions are right is tested by package server, with promtool.
func TestAlertsNameWhatThereIs(t *testing.T) {
	alerts := readRules(t, "alerts.yaml").Groups[0].Rules
	require.Len(t, alerts, 6)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range readRules(t, "alerts_test.yaml").Tests {
		for _, c := range test.Cases {
			fires[c.Alert] = fires[c.Alert] || len(c.Expected) > 0
			silent[c.Alert] = silent[c.Alert] || len(c.Expected) == 0
		}
	}
	for _, alert := range alerts {
		require.True(t, fires[alert.Alert], alert.Alert)
		require.True(t, silent[alert.Alert], alert.Alert)
		require.NotEmpty(t, alert.Annotations["summary"], alert.Alert)
		require.NotEmpty(t, alert.Annotations["description"], alert.Alert)
		require.Contains(t, []string{"critical", "warning"}, alert.Labels["severity"], alert.Alert)
		require.NotEmpty(t, known(t, alert.Expr), alert.Alert)
	}
}

// TestDashboardNamesWhatThereIs: each panel names series that exist, and each family has a panel.
func TestDashboardNamesWhatThereIs(t *testing.T) {
	shown, ids := map[string]bool{}, map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range readDashboard(t).Panels {
		require.NotEmpty(t, p.Description, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		require.False(t, ids[p.ID], p.Title)
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Less(t, at[0], 24, p.Title)
				require.Empty(t, taken[at], "%s lies on it", p.Title)
				taken[at] = p.Title
			}
		}
		for _, target := range p.Targets {
			for _, family := range known(t, target.Expr) {
				shown[family] = true
			}
		}
	}
	for _, f := range metrics.Families() {
		require.True(t, shown[f.Name], "%s is not shown", f.Name)
	}
}

var (
	names    = regexp.MustCompile(`\bleadership_\w+`)
	states   = regexp.MustCompile(`\bstate="(\w*)"`)
	grouping = regexp.MustCompile(`\b(?:by|on|ignoring) \(([^)]*)\)`)
)

// known requires that all names of series, labels and states in an expression exist, and returns the families.
func known(t *testing.T, expr string) (found []string) {
	t.Helper()
	families := map[string]metrics.Family{}
	labels := []string{"job", "instance", "le"}
	for _, f := range metrics.Families() {
		labels = append(labels, f.Labels...)
		if f.Kind != metrics.HistogramKind {
			families[f.Name] = f
			continue
		}
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			families[f.Name+part] = f
		}
	}
	for _, name := range names.FindAllString(expr, -1) {
		f, ok := families[name]
		require.True(t, ok, "there is no %s", name)
		found = append(found, f.Name)
	}
	for _, list := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(list[1], ", ") {
			require.True(t, slices.Contains(labels, label), "there is no label %s", label)
		}
	}
	for _, state := range states.FindAllStringSubmatch(expr, -1) {
		exists := false
		for s := leadership.Idle; s <= leadership.WindingDown; s++ {
			exists = exists || s.String() == state[1]
		}
		require.True(t, exists, "there is no state %s", state[1])
	}
	return found
}
