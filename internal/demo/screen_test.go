package demo

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// tty is a terminal that understands what the demo prints. It fails if a line would wrap or the cursor leaves the screen.
type tty struct {
	t             *testing.T
	width, height int
	lines         []string // of the screen, from the top
	row, column   int      // of the cursor
	colors        int      // how often a colour was set
}

func newTTY(t *testing.T, width, height int) *tty {
	return &tty{t: t, width: width, height: height, lines: make([]string, height)}
}

func (y *tty) size() (width, height int) { return y.width, y.height }

// resize changes its size. The text stays at the top.
func (y *tty) resize(width, height int) {
	y.lines = append(y.lines, make([]string, height)...)[:height]
	y.width, y.height, y.row = width, height, min(y.row, height-1)
}

func (y *tty) Write(p []byte) (int, error) {
	for text := string(p); text != ""; {
		var n int
		switch parameter, command, ok := escape(text); {
		case ok:
			y.obey(parameter, command)
			n = len("\x1b[") + len(parameter) + 1
		case text[0] == '\n':
			y.newline()
			n = 1
		case text[0] == '\r':
			y.column = 0
			n = 1
		default:
			n = min(len(text), strings.IndexAny(text+"\x1b", "\x1b\r\n"))
			y.print(text[:n])
		}
		text = text[n:]
	}
	return len(p), nil
}

// escape returns the control sequence that a text begins with.
func escape(text string) (parameter string, command byte, ok bool) {
	rest, ok := strings.CutPrefix(text, "\x1b[")
	if !ok {
		return "", 0, false
	}
	n := strings.IndexFunc(rest, func(r rune) bool { return r >= '@' })
	return rest[:n], rest[n], true
}

func (y *tty) obey(parameter string, command byte) {
	switch fmt.Sprint(parameter, string(command)) {
	case "K":
		y.lines[y.row] = y.lines[y.row][:min(y.column, len(y.lines[y.row]))]
	case "J":
		y.obey("", 'K')
		clear(y.lines[y.row+1:])
	case "2J":
		clear(y.lines)
	case "H":
		y.row, y.column = 0, 0
	default:
		var n int
		switch command {
		case 'm':
			y.colors++
		case 'A':
			_, err := fmt.Sscan(parameter, &n)
			require.NoError(y.t, err)
			require.LessOrEqual(y.t, n, y.row, "the cursor leaves the screen")
			y.row -= n
		default:
			require.Fail(y.t, "unknown control sequence", "%s%c", parameter, command)
		}
	}
}

func (y *tty) newline() {
	y.column = 0
	if y.row++; y.row == y.height {
		y.lines = append(y.lines[1:], "")
		y.row--
	}
}

func (y *tty) print(text string) {
	line := []rune(fmt.Sprintf("%-*s", y.column, y.lines[y.row]))
	end := y.column + len([]rune(text))
	require.Less(y.t, end, y.width, "wrapped: %q", text)
	line = append(line[:y.column], append([]rune(text), line[min(end, len(line)):]...)...)
	y.lines[y.row], y.column = string(line), end
}

// shown is the screen without empty lines at its end.
func (y *tty) shown() string { return strings.TrimRight(strings.Join(y.lines, "\n"), "\n") }

// stage is a scene with three candidates that have not reported anything.
func stage() *scene {
	s := &scene{address: "file:///x", began: time.Now(), processes: map[string]*process{}, turns: []turn{{
		after: "start", began: time.Now(), due: "a",
	}}}
	for i, name := range cast {
		s.processes[name] = &process{
			name: name, cmd: &exec.Cmd{Process: &os.Process{Pid: 100 + i}}, exited: make(chan struct{}),
		}
	}
	s.view = &lines{new(bytes.Buffer)}
	return s
}

func TestScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newTTY(t, 60, 30)
		fmt.Fprint(y, "$ make demo\nstarting\n")
		s := stage()
		view := &frames{out: y, screen: &Screen{Size: y.size}}
		s.view = view
		require.NoError(t, view.refresh(s))
		s.queue = []string{"a", "b", "c"}
		s.handle(event{At: time.Now(), Who: "a", What: elected, Token: 7, Text: "leads, token 7"})
		s.handle(event{At: time.Now(), Who: follower, What: learnt, Name: "a", Text: "knows that a leads"})
		require.NoError(t, view.refresh(s))
		time.Sleep(1500 * time.Millisecond)
		s.processes["a"].fate = frozen
		s.processes["b"].fate = killed
		s.turns[0].knew = time.Millisecond
		s.turns = append(s.turns, turn{after: "freeze a", began: time.Now(), bound: 3 * time.Second})
		s.note(time.Now(), "a sentence that is longer than this screen is wide")
		time.Sleep(250 * time.Millisecond)
		require.NoError(t, view.refresh(s))
		require.Equal(t, `$ make demo
starting
leadership demo, 1.8 s, on file:///x

leader    a, frozen
queue     a, b, c
follower  knows a

a         process 100 is frozen
b         process 101 was killed
c         process 102 waits

after      leader   token   led after      bound   follower
start      a        7       0.0 ms         -       1.0 ms
freeze a   -        -       250.0 ms ...   3s      -

00:00:00.000  a         leads, token 7
00:00:00.000  follower  knows that a leads
00:00:01.500  demo      a sentence that is longer than this`, strings.ReplaceAll(y.shown(), time.Now().Format("15:04:"), "00:00:"))
		require.Zero(t, y.colors)

		full := y.shown()
		for range 50 { // more than it can show
			s.note(time.Now(), "one more")
			require.NoError(t, view.refresh(s))
		}
		require.NotEqual(t, full, y.shown())
		require.Equal(t, latestEvents, strings.Count(y.shown(), "demo      one more"))
		require.Equal(t, 1, strings.Count(y.shown(), "leadership demo"), "drawn in the same place")
		require.Contains(t, y.shown(), "$ make demo")

		// Two lines stay free, for the cursor and the verdict.
		y.resize(30, 9)
		view.screen.Color = true
		require.NoError(t, view.refresh(s))
		require.Equal(t, `leadership demo, 1.8 s, on fi

leader    a, frozen
queue     a, b, c
follower  knows a

a         process 100 is froz`, y.shown())
		require.Positive(t, y.colors)
		for _, height := range []int{1, 2, 24} {
			y.resize(1, height)
			require.NoError(t, view.refresh(s))
			require.Empty(t, y.shown())
		}
	})
}

// If the output is no terminal, nothing is redrawn.
func TestNoTerminal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer f.Close()
	require.Nil(t, Terminal(f))
}
