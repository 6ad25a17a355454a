package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/internal/metrics"
	"github.com/stretchr/testify/require"
)

// Each series that a page names exists, and the pages name each series and each alert.
func TestNamedSeriesExist(t *testing.T) {
	missing := map[string]bool{}
	for _, f := range append(metrics.Families(), metrics.QueueFamilies()...) {
		missing[f.Name] = true
	}
	series := regexp.MustCompile("`(leadership_\\w+)")
	all := ""
	for path, text := range pages(t) {
		all += text
		for _, m := range series.FindAllStringSubmatch(text, -1) {
			_, exists := missing[m[1]]
			require.True(t, exists, "%s names %s", path, m[1])
			missing[m[1]] = false
		}
	}
	for name, is := range missing {
		require.False(t, is, "no page names %s", name)
	}
	rules, err := os.ReadFile("../contrib/prom/alerts.yaml")
	require.NoError(t, err)
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	require.NotEmpty(t, alerts)
	for _, alert := range alerts {
		require.True(t, strings.Contains(all, "**"+alert[1]+"**"), "no page says what to do about %s", alert[1])
	}
}
