package serve

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The paths are read only, are no redirects, and load nothing but the page's own files.
func TestPaths(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "e", "db1")
		w.start(Config{})
		for path, code := range map[string]int{
			"/": 200, "/page.js": 200, "/page.css": 200, "/elections": 200, "/metrics": 200, "/elections/e/leader?value=db1": 200,
			"//": 404, "/elections/": 404, "/elections//leader": 404, "/elections/e": 404, "/elections/e/leader/": 404, "/x": 404, "/page.html": 404,
			"/elections/other/leader?value=db1": 404, "/elections/e/leader": 400, "/elections/e/leader?value=a&value=b": 400,
			"/elections/e/leader?value=db1&x=1": 400, "/elections/e/leader?value=%": 400,
		} {
			for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE"} {
				r := w.ask(method, path, "localhost:8009")
				want := code
				if strings.IndexAny(method, "PD") == 0 {
					want = http.StatusMethodNotAllowed
				} else {
					require.Contains(t, r.Header().Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
				}
				require.Equal(t, want, r.Code, "%s %s", method, path)
				require.Equal(t, "no-store", r.Header().Get("Cache-Control"))
				require.Equal(t, "nosniff", r.Header().Get("X-Content-Type-Options"))
			}
		}
		require.Contains(t, w.get("/page.css").Header().Get("Content-Type"), "text/css")
		require.Contains(t, w.get("/page.js").Header().Get("Content-Type"), "javascript")
	})
}

// A page of another site whose name resolves to this server gets nothing.
func TestHosts(t *testing.T) {
	virtual(t, func(w *world) {
		w.start(Config{Host: "Leadership.example.com"})
		for host, code := range map[string]int{
			"127.0.0.1:8009": 200, "127.0.0.1": 200, "[::1]:8009": 200, "[::1]": 200, "10.0.0.7:80": 200, "localhost:8009": 200, "LOCALHOST": 200,
			"x.localhost": 200, "serve:8009": 200, "serve.monitoring.svc.cluster.local": 200, "host.internal:8009": 200, "": 200,
			"leadership.example.com": 200, "leadership.example.com:8009": 200,
			"evil.example": 421, "evil.example:8009": 421, "x.leadership.example.com": 421, "localhost.evil.example": 421,
			"127.0.0.1.evil.example": 421, "evil.example.": 421, "local.": 421,
		} {
			for _, path := range []string{"/", "/elections", "/events", "/metrics", "/elections/e/leader?value=x"} {
				if code == 200 && path != "/elections" {
					continue
				}
				answer := w.ask("GET", path, host)
				require.Equal(t, code, answer.Code, "%q %s", host, path)
			}
		}
		require.Contains(t, w.ask("GET", "/", "evil.example").Body.String(), `the name "evil.example": use an IP address`)
	})
}

// Whatever a candidate's value is, the page shows it as text.
func TestValuesAreText(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		w.lead(st, "e", "\xff</td><script>document.title=\"OWNED\"</script>")
		w.lead(st, "e", "\" onmouseover=\"alert(1)")
		w.lead(st, "e", "\x1b[2J\u202e\u0000")
		w.start(Config{})
		page := w.get("/").Body.String()
		require.Equal(t, 1, strings.Count(page, "<script"))
		require.Contains(t, page, `&#34;\xff&lt;/td&gt;&lt;script&gt;document.title=\&#34;OWNED\&#34;&lt;/script&gt;&#34;`)
		require.Contains(t, page, `&#34;\x1b[2J\u202e\x00&#34;`)
		require.NotContains(t, page, "onmouseover=\"")
		require.Equal(t, "\xff</td><script>document.title=\"OWNED\"</script>", w.election("e").Leader.exact())
		require.Equal(t, 200, w.get("/elections/e/leader?value=%FF%3C/td%3E%3Cscript%3Edocument.title=%22OWNED%22%3C/script%3E").Code)
	})
}

func (l *leaderJSON) exact() string { return (&ChangeLeader{JSON: l.JSON}).Exact() }
