package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// limit is a package with a mutant that its tests kill, one that survives, and one that does not compile.
const limit = `package limit

// Below has a constant that no test looks at.
func Below(n int) bool {
	return n < 100
}

func First(names []string) string {
	return names[0] + ""
}
`

const limitTest = `package limit

import "testing"

func Test(t *testing.T) {
	if !Below(5) || Below(500) || First([]string{"a", "b"}) != "a" {
		t.Fatal()
	}
}
`

func inModule(t *testing.T, test string) {
	t.Chdir(t.TempDir())
	t.Setenv("GOWORK", "off")
	for name, content := range map[string]string{"go.mod": "module limit\n\ngo 1.26\n", "limit.go": limit, "limit_test.go": test} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRun(t *testing.T) {
	inModule(t, limitTest)
	*statePath, *explainedPath = filepath.Join(t.TempDir(), "state"), ""
	t.Cleanup(func() { *statePath, *explainedPath = "", "" })
	verdictsOf := func() map[string]verdict {
		v, err := openVerdicts(*statePath)
		if err != nil {
			t.Fatal(err)
		}
		v.close()
		return v.given
	}
	want := map[string]verdict{
		"limit.go Below: n < 100 => n <= 100":                survived,
		"limit.go Below: n < 100 => n >= 100":                killed,
		"limit.go Below: 100 => 101":                         survived,
		"limit.go First: names[0] + \"\" => names[0] - \"\"": invalid,
		"limit.go First: 0 => 1":                             killed,
	}
	ok, err := run(t.Context(), []string{"."})
	if err != nil || ok {
		t.Fatalf("ok %v, %v", ok, err)
	}
	got := verdictsOf()
	for name, v := range want {
		if got[name] != v {
			t.Errorf("%s: %q, want %q", name, got[name], v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d mutants, want %d: %v", len(got), len(want), got)
	}

	// Mutants that have a verdict are not tried again. Survivors that are explained are no failure.
	*explainedPath = filepath.Join(t.TempDir(), "explained")
	var explanation strings.Builder
	explanation.WriteString("# a comment\n\nlimit.go Below: 100 => 102\n\tof no mutant\n")
	for name, v := range got {
		if v == survived {
			explanation.WriteString(name + "\n\twhy\n\tand why\n\n")
		}
	}
	if err := os.WriteFile(*explainedPath, []byte(explanation.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if ok, err := run(t.Context(), []string{"."}); err != nil || !ok {
		t.Fatalf("ok %v, %v", ok, err)
	}
	if again := verdictsOf(); len(again) != len(got) {
		t.Fatalf("%d verdicts, were %d", len(again), len(got))
	}
}

// A mutant whose tests hang has another verdict than one whose tests fail. Tests that don't match the pattern are not run.
func TestRunTimesOut(t *testing.T) {
	inModule(t, "package limit\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tfor !Below(5) {\n\t}\n}\n\n"+
		"func TestB(t *testing.T) {\n\tt.Fatal()\n}\n")
	*statePath, *match, *least = filepath.Join(t.TempDir(), "state"), "n >= 100", 2*time.Second
	t.Cleanup(func() { *statePath, *match, *least = "", "", 20*time.Second })
	if ok, err := run(t.Context(), []string{".=^TestA$"}); err != nil || !ok {
		t.Fatalf("ok %v, %v", ok, err)
	}
	content, err := os.ReadFile(*statePath)
	if err != nil || string(content) != "timed-out limit.go Below: n < 100 => n >= 100\n" {
		t.Fatalf("%q, %v", content, err)
	}
}

// If the time limit has become too short for the machine, no mutant counts as killed.
func TestLimitIsRaised(t *testing.T) {
	const slow = "package limit\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\n" +
		"func Test(t *testing.T) {\n\ttime.Sleep(time.Second)\n\tBelow(5)\n}\n"
	inModule(t, slow)
	*least = 0
	t.Cleanup(func() { *least = 20 * time.Second })
	busy := &tests{pkg: ".", limit: 100 * time.Millisecond} // as if the tests had taken a hundredth of their time now
	if o, err := busy.try(t.Context(), ""); err != nil || o.err != nil {
		t.Fatal(err, o)
	}
	if busy.clean < time.Second || busy.limit < 10*time.Second {
		t.Fatal(busy)
	}
}

// A package without tests is refused: all mutants would survive.
func TestRunRefusesNoTests(t *testing.T) {
	inModule(t, limitTest)
	if _, err := run(t.Context(), []string{".=^TestA$"}); err == nil || !strings.Contains(err.Error(), "has no tests") {
		t.Fatal(err)
	}
	if err := os.Remove("limit_test.go"); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), []string{"."}); err == nil || !strings.Contains(err.Error(), "has no tests") {
		t.Fatal(err)
	}
}

// If the tests fail without a mutant, no mutant counts as killed.
func TestRunRefusesFailingTests(t *testing.T) {
	inModule(t, strings.Replace(limitTest, "!Below(5)", "true", 1))
	if _, err := run(t.Context(), []string{"."}); err == nil || !strings.Contains(err.Error(), "fail without a change") {
		t.Fatal(err)
	}
}

func TestMutants(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.go")
	const source = "package x\n\nimport _ \"fmt\"\n\nvar x, y = -1, true\n\n" +
		"func f(a, b bool, c chan int) {\n\tfor a && !b {\n\t\tx += 2\n\t\tx--\n\t\tif a {\n\t\t\tc <- x\n\t\t\tbreak\n\t\t}\n\t}\n\tdefer f(a, b, c)\n}\n"
	if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	mutants, err := mutantsOf(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range mutants {
		changed, err := m.source()
		if err != nil {
			t.Fatal(err)
		}
		if string(changed) == source {
			t.Errorf("%s changes nothing", m.name)
		}
		got = append(got, strings.TrimPrefix(m.name, path+" "))
	}
	want := []string{
		"var: -1 => 1", "var: 1 => 2", "var: true => false",
		"f: a && !b => !(a && !b)", "f: a && !b => a || !b", "f: !b => b",
		"f: x += 2 => x -= 2", "f: x += 2 drop", "f: 2 => 3", "f: x-- => x++", "f: x-- drop",
		"f: a => !(a)", "f: c <- x drop", "f: break drop", "f: defer f(a, b, c) drop",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestFailureIn(t *testing.T) {
	for out, want := range map[string]string{
		"--- FAIL: TestA (0.01s)\n    a.go:1: no\nFAIL\n":                                 "--- FAIL: TestA",
		"    --- FAIL: TestA/b (0.01s)\npanic: no [recovered]\n":                          "--- FAIL: TestA/b",
		"panic: TestA is stuck\n\ngoroutine 7":                                            "panic: TestA is stuck",
		"fatal error: all goroutines are asleep - deadlock!\n":                            "fatal error: all goroutines are asleep - deadlock!",
		"panic: test timed out after 9s\n\trunning tests:\n\t\tTestA (8s)\n\ngoroutine 7": "panic: test timed out after 9s running tests: TestA (8s)",
		"ok\n": "",
	} {
		if got := failureIn(out); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
