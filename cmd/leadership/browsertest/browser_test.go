package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// chromium is the browser, and what ends it.
var chromium struct {
	once sync.Once
	ctx  context.Context
	end  func()
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if chromium.end != nil {
		chromium.end()
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// browser returns the browser, which all tests share: each opens a tab.
func browser(t *testing.T) context.Context {
	t.Helper()
	whole.Need(t)
	chromium.once.Do(func() {
		path, err := exec.LookPath("chromium")
		if err != nil {
			chromium.err = errors.New("chromium is not installed: run scripts/setup chromium")
			return
		}
		profile, err := os.MkdirTemp("", "browsertest")
		if err != nil {
			chromium.err = err
			return
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath(path), chromedp.UserDataDir(profile), chromedp.DisableGPU, chromedp.WSURLReadTimeout(patience))
		if os.Getuid() == 0 {
			options = append(options, chromedp.NoSandbox)
		}
		allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, end := chromedp.NewContext(allocator)
		chromium.ctx = ctx
		chromium.end = func() { _ = chromedp.Cancel(ctx); end(); endAllocator(); _ = os.RemoveAll(profile) }
		chromium.err = chromedp.Do(ctx)
	})
	require.NoError(t, chromium.err)
	return chromium.ctx
}

// patience is how long a test waits for the browser: on a busy machine for its start, and for all that a tab does.
const patience = 2 * time.Minute

// tab is a tab of the browser. Errors on its console, exceptions and violations of the content security policy fail the
// test.
type tab struct {
	*testing.T
	ctx context.Context

	mu     sync.Mutex
	errors []string // guarded by mu
}

// newTab opens a tab of a size that shows a colour scheme, "light" or "dark".
func newTab(t *testing.T, width, height int64, scheme string) *tab {
	t.Helper()
	target, end := chromedp.NewContext(browser(t))
	require.NoError(t, chromedp.Do(target)) // without the limit: it would be that of the tab
	ctx, cancel := context.WithTimeout(target, patience)
	b := &tab{T: t, ctx: ctx}
	t.Cleanup(func() { b.clean(); cancel(); end() })
	require.NoError(t, chromedp.Listen(target, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.errors = append(b.errors, fmt.Sprint("exception: ", e.ExceptionDetails.Text))
		case *runtime.EventConsoleAPICalled:
			b.errors = append(b.errors, fmt.Sprint("console.", e.Type))
		case *log.EventEntryAdded: // what the network and the content security policy have refused too
			b.errors = append(b.errors, fmt.Sprint(e.Entry.Source, ": ", e.Entry.Text, " ", e.Entry.URL))
		}
	}))
	call(b, log.Enable, cdp.Empty{})
	call(b, runtime.Enable, cdp.Empty{})
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500,
	})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	return b
}

// call calls a command of the debugging protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) {
	b.Helper()
	_, err := chromedp.Call(b.ctx, command, params)
	require.NoError(b, err)
}

// run runs an action in the tab.
func run[V any](b *tab, action chromedp.Action[V]) V {
	b.Helper()
	v, err := chromedp.Run(b.ctx, action)
	require.NoError(b, err)
	return v
}

// scripts turns JavaScript on or off, for pages that are opened from then on.
func (b *tab) scripts(on bool) {
	b.Helper()
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
}

// clean fails the test if the tab has reported an error since the last call, but for those that are expected.
func (b *tab) clean(expected ...string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.errors {
		known := false
		for _, e := range expected {
			known = known || strings.Contains(text, e)
		}
		if !known {
			b.Errorf("the browser reports: %s", text)
		}
	}
	b.errors = nil
}

// open opens a page.
func (b *tab) open(url string) {
	b.Helper()
	run(b, chromedp.Navigate(url))
}

// eval returns the value of an expression of JavaScript.
func eval[V any](b *tab, expression string) V {
	b.Helper()
	return run(b, chromedp.Evaluate[V](expression, chromedp.EvalAwaitPromise))
}

// until waits until an expression of JavaScript is true.
func (b *tab) until(expression string) {
	b.Helper()
	for !eval[bool](b, "!!("+expression+")") {
		b.pause(expression)
	}
}

// pause waits a moment before the test looks again for something.
func (b *tab) pause(what string) {
	b.Helper()
	select {
	case <-time.After(10 * time.Millisecond):
	case <-b.ctx.Done():
		b.Fatalf("waited for %v in vain: %s", patience, what)
	}
}

// live waits until the page is live.
func (b *tab) live() { b.until(`document.getElementById("live").textContent === "live"`) }

// shot takes a screenshot of what is seen. "go test -artifacts -outputdir DIR" keeps it.
func (b *tab) shot(name string) {
	b.Helper()
	png := run(b, chromedp.CaptureScreenshot())
	require.NotEmpty(b, png)
	require.NoError(b, os.WriteFile(filepath.Join(b.ArtifactDir(), name+".png"), png, 0o644))
}
