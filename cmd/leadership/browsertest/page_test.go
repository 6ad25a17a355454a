package browsertest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/go-leadership/leadership/operate"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/file"
	"github.com/stretchr/testify/require"
)

// views are how the page is looked at.
var views = []struct {
	name          string
	width, height int64
	scheme        string
}{
	{"desk-light", 1280, 900, "light"}, {"desk-dark", 1280, 900, "dark"}, {"phone-light", 360, 760, "light"}, {"phone-dark", 360, 760, "dark"},
}

var every = flag.Bool("every", false, "also look at a page of 1,000 elections")

// Of each width and colour scheme: nothing is wider than the screen, all text has contrast, and nothing is reported on
// the console.
func TestLooks(t *testing.T) {
	elections := []int{1, 30}
	if *every {
		elections = append(elections, 1000)
	}
	for _, n := range elections {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			w := newWorld(t)
			trouble(w, n)
			w.start()
			for _, v := range views {
				t.Run(v.name, func(t *testing.T) {
					b := newTab(t, v.width, v.height, v.scheme)
					began := time.Now()
					b.open(w.url())
					b.live()
					t.Logf("live after %v", time.Since(began).Round(time.Millisecond))
					b.until(fmt.Sprintf(`document.querySelectorAll("#elections tbody tr").length === %d`, n))
					b.shot(fmt.Sprintf("%d-%s", n, v.name))
					require.LessOrEqual(t, eval[int](b, "document.documentElement.scrollWidth"), int(v.width), "it scrolls sideways")
					require.Empty(t, eval[[]string](b, lowContrast))
					b.clean()
				})
			}
		})
	}
}

// trouble makes n elections, in the first ones of which something is wrong.
func trouble(w *world, n int) {
	w.Helper()
	w.stand("database/primary", "dbhost1.example.net:5432", "dbhost2.example.net:5432", "dbhost3.example.net:5432")
	for i := range n - 1 {
		name := fmt.Sprintf("tenant-%03d/scheduler", i)
		if i == 3 { // a long name and long values
			w.stand(name+strings.Repeat("/with-a-long-name", 9), strings.Repeat("a-value-without-any-break", 20))
			continue
		}
		if i == 5 {
			w.stand(name, "app-1.example.net:8080")
			hold, err := operate.NewHold(w.Context(), w.candidates, name, "new disks in rack 7 (alice@ops1)")
			require.NoError(w, err)
			w.Cleanup(func() { require.NoError(w, hold.Release(context.Background())) })
			continue
		}
		ballots := w.stand(name, "app-1.example.net:8080", "app-2.example.net:8080", "app-3.example.net:8080")
		switch i {
		case 4:
			require.NoError(w, w.candidates.RequestResignation(w.Context(), name, ballots[0].Token()))
		case 6:
			w.withdraw(ballots[0])
		case 7:
			_, err := w.candidates.Cast(w.Context(), name, "app-3.example.net:8080")
			require.NoError(w, err)
		}
	}
}

// lowContrast returns the texts whose contrast to what is behind them is less than 4.5, as WCAG 2 counts it.
const lowContrast = `(() => {
	const parse = (c) => c.match(/[\d.]+/g).map(Number);
	const luminance = ([r, g, b]) => {
		const f = (x) => { x /= 255; return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; };
		return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
	};
	const behind = (e) => {
		for (; e; e = e.parentElement) {
			const c = parse(getComputedStyle(e).backgroundColor);
			if (c.length === 3 || c[3] > 0) return c;
		}
		return [255, 255, 255];
	};
	const low = new Set();
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const e = walk.currentNode.parentElement, text = walk.currentNode.textContent.trim();
		if (!text || ["SCRIPT", "NOSCRIPT", "STYLE"].includes(e.tagName)) continue;
		const [a, b] = [luminance(parse(getComputedStyle(e).color)), luminance(behind(e))];
		const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (contrast < 4.5) low.add(contrast.toFixed(2) + " " + e.className + " " + text);
	}
	return [...low];
})()`

const script = `<script>document.title="OWNED"</script>`

// A candidate whose value is a script is text: in the page as it is loaded, in a live update, and as the leader.
func TestValueIsText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ballots := w.stand("e", "db1", script, `"><img src=x onerror=alert(1)>`)
	w.start()
	b := newTab(t, 1280, 900, "light")
	owned := func() {
		t.Helper()
		require.NotContains(t, eval[string](b, "document.title"), "OWNED")
		require.Equal(t, 1, eval[int](b, `document.querySelectorAll("script").length`))
		require.Zero(t, eval[int](b, `document.querySelectorAll("img").length`))
	}
	b.scripts(false)
	b.open(w.url())
	require.Contains(t, text(b, "#elections"), script)
	b.scripts(true)

	b.open(w.url())
	b.live()
	require.Contains(t, text(b, "#elections"), script)
	owned()
	w.withdraw(ballots[0])
	w.lead(ballots[1], script)
	b.until(`document.querySelector("#elections td.leader").textContent.includes("OWNED")`)
	require.Equal(t, script, text(b, "#elections td.leader"))
	b.until(`document.querySelector("#changes td.leader").textContent.includes("OWNED")`)
	owned()
	b.shot("script")
}

// text returns the text of the first element. Between finding it and reading it the page might be loaded again: then
// the browser says that there is no such node or context, with the code -32000.
func text(b *tab, selector string) string {
	b.Helper()
	for {
		content, err := chromedp.Run(b.ctx, chromedp.TextContent(selector))
		if err == nil || !strings.Contains(err.Error(), "(-32000)") {
			require.NoError(b, err)
			return content
		}
	}
}

// A token above 2^53 is shown exactly, in the page as it is loaded and live.
func TestTokenIsExact(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/store"
	open := func() store.Store {
		st, err := file.Open(file.Config{Directory: dir, TTL: time.Minute})
		require.NoError(t, err)
		return st
	}
	w := worldOn(t, open)
	w.stand("other", "makes the directory")
	floor := 1<<53 - 64 // the store gives out tokens from the next block of 64 on
	require.NoError(t, os.WriteFile(fmt.Sprint(dir, "/f/", floor, "-", floor), nil, 0o600))
	ballots := w.stand("e", "db1", "db2", "db3")
	require.EqualValues(t, 1<<53+1, ballots[0].Token())
	w.start()
	b := newTab(t, 1280, 900, "light")
	b.open(w.url())
	b.live()
	token := func() string {
		return eval[string](b, `document.getElementById("e:e").querySelector("td.token").textContent`)
	}
	require.Equal(t, "9007199254740993", token())
	w.withdraw(ballots[1])
	w.withdraw(ballots[0])
	w.lead(ballots[2], "db3")
	b.until(`document.getElementById("e:e").querySelector("td.token").textContent.endsWith("5")`)
	require.EqualValues(t, 1<<53+3, ballots[2].Token())
	require.Equal(t, "9007199254740995", token())
}

// Changes are seen without loading the page again: of the leader, of the queue, and of what is wrong.
func TestLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ballots := w.stand("e", "db1", "db2")
	w.start()
	b := newTab(t, 1280, 900, "light")
	b.open(w.url())
	b.live()
	eval[int](b, "window.loaded = 1")
	w.withdraw(ballots[0])
	b.until(`document.querySelector("#problems li .tag").textContent === "taking over"`)
	require.Equal(t, "1 problem · etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/prod", eval[string](b, "document.title"))
	w.lead(ballots[1], "db2")
	b.until(`document.querySelector("#problems li .tag").textContent === "nothing"`)
	b.until(`document.querySelector("#elections td.leader").textContent === "db2"`)
	b.until(`/^\d+ ms|s$/.test(document.querySelector("#changes td.gap").textContent)`)
	_, err := w.candidates.Cast(t.Context(), "e", "db3")
	require.NoError(t, err)
	b.until(`document.querySelector("#elections summary").textContent === "2 in line"`) // after 5 s at most
	w.stand("another", "x")
	b.until(`document.querySelectorAll("#elections tbody tr").length === 2`) // after 10 s at most
	require.Equal(t, 1, eval[int](b, "window.loaded"), "the page was loaded again")

	// The filter leaves out what does not match, and an election that is opened stays open.
	run(b, chromedp.SendKeys("#filter", "DB2"))
	require.Equal(t, []string{"e:e"}, eval[[]string](b, `[...document.querySelectorAll("#elections tbody tr:not([hidden])")].map((e) => e.id)`))
	eval[bool](b, `document.querySelector("#e\\:e details").open = false`)
	w.withdraw(ballots[1])
	b.until(`document.getElementById("e:e").className === "warning"`)
	require.False(t, eval[bool](b, `document.querySelector("#e\\:e details").open`))
}

// Without JavaScript all is there, and the page loads itself again.
func TestWithoutJavaScript(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ballots := w.stand("e", "db1", "db2")
	w.start()
	b := newTab(t, 1280, 900, "light")
	b.scripts(false)
	b.open(w.url())
	require.Contains(t, text(b, "#live"), "loaded again every 5 s")
	for selector, want := range map[string]string{
		"#problems": "nothing", "#elections td.leader": "db1", "#elections ol": "db2", "#changes": "found at the start", "#summary": "1 election · 1 led",
		"#elections td.token": strconv.FormatUint(ballots[0].Token(), 10),
	} {
		require.Contains(t, text(b, selector), want, selector)
	}
	b.shot("without-javascript")
	w.withdraw(ballots[0])
	for !strings.Contains(text(b, "#problems"), "taking over") {
		b.pause("the page to be loaded again")
	}
}

// A page whose server has gone says since when, and is live again when the server is back, even if that is another one.
func TestServerStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ballots := w.stand("e", "db1", "db2")
	w.stand("other", "x")
	stop := w.start()
	b := newTab(t, 1280, 900, "light")
	b.open(w.url())
	b.live()
	b.clean()
	stop()
	b.until(`document.getElementById("live").textContent.startsWith("not live since 20")`)
	require.Contains(t, text(b, "#problems"), "what is shown is as of then")
	b.shot("not-live")
	w.withdraw(ballots[0])
	w.lead(ballots[1], "db2")
	stop = w.start()
	defer stop()
	b.live()
	require.NotContains(t, text(b, "#problems"), "what is shown is as of then")
	b.clean("net::ERR_")
	require.Equal(t, "db2", eval[string](b, `document.getElementById("e:e").querySelector("td.leader").textContent`))

	// The script has drawn all of it: as the server draws it, but for the time.
	const drawn = `.map((e) => e.outerHTML.replace(/\s+/g, " ").replace(/> </g, "><").replace(/<time.*?<\/time>/g, "").replace(/ open=""/g, "")).join("\n")`
	const selected = `["problems", "elections", "changes"].map((id) => page.getElementById(id))`
	require.Equal(t,
		eval[string](b, `fetch("/").then((r) => r.text()).then((t) => { const page = new DOMParser().parseFromString(t, "text/html"); return `+selected+drawn+`; })`),
		eval[string](b, `(() => { const page = document; return `+selected+drawn+`; })()`))
}
