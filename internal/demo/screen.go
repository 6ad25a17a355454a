package demo

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// view shows the scene. Its errors are those of the writer.
type view interface {
	event(event) error    // which has just happened
	refresh(*scene) error // something might have changed
	end(*scene) error     // the last picture
}

// lines prints a line for each event, and the table at the end.
type lines struct{ out io.Writer }

func (v *lines) event(e event) error {
	_, err := fmt.Fprintln(v.out, e)
	return err
}

func (v *lines) refresh(*scene) error { return nil }

func (v *lines) end(s *scene) error {
	_, err := fmt.Fprintf(v.out, "\n%s\n", strings.Join(table(s.turns), "\n"))
	return err
}

// Screen is a terminal on which the demo is redrawn in place.
type Screen struct {
	Size  func() (width, height int) // in characters
	Color bool
}

// Terminal returns the screen that f is, or nil if f is no terminal, or a terminal that can't be redrawn. The screen has
// no colours if NO_COLOR is set.
func Terminal(f *os.File) *Screen {
	if _, _, ok := windowSize(f); !ok || slices.Contains([]string{"", "dumb"}, os.Getenv("TERM")) {
		return nil
	}
	size := func() (width, height int) {
		width, height, _ = windowSize(f)
		if width == 0 || height == 0 {
			return 80, 24
		}
		return width, height
	}
	return &Screen{Size: size, Color: os.Getenv("NO_COLOR") == ""}
}

// frames draws the scene again and again in the same place, from the line on which the cursor was.
type frames struct {
	out           io.Writer
	screen        *Screen
	width, height int // at the last frame
	drawn         int // lines of the last frame; the cursor is below them
}

func (v *frames) event(event) error { return nil } // the next frame shows it

func (v *frames) end(s *scene) error { return v.refresh(s) }

// refresh draws a frame, in one write. Its lines are never wrapped, and two lines of the screen stay free: for the cursor
// and the verdict.
func (v *frames) refresh(s *scene) error {
	width, height := v.screen.Size()
	var b bytes.Buffer
	switch {
	case v.drawn > 0 && (width != v.width || height != v.height): // the terminal might have moved the lines
		b.WriteString("\x1b[H\x1b[2J")
	case v.drawn > 0:
		fmt.Fprintf(&b, "\r\x1b[%dA", v.drawn)
	}
	frame := picture(s, time.Now(), height-2)
	for _, row := range frame {
		text := []rune(row.text)
		text = text[:min(len(text), max(width-1, 0))]
		if v.screen.Color && row.color != "" {
			fmt.Fprintf(&b, "\x1b[%sm%s\x1b[m\x1b[K\n", row.color, string(text))
		} else {
			fmt.Fprintf(&b, "%s\x1b[K\n", string(text))
		}
	}
	b.WriteString("\x1b[J")
	v.width, v.height, v.drawn = width, height, len(frame)
	_, err := v.out.Write(b.Bytes())
	return err
}

// row is a line on the screen.
type row struct {
	text  string
	color string // of "Select Graphic Rendition"; empty for the default
}

const (
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// latestEvents is how many events a screen shows if it has room for more.
const latestEvents = 10

// picture returns what a screen with so many lines shows.
func picture(s *scene, now time.Time, height int) []row {
	rows := []row{
		{fmt.Sprintf("leadership demo, %.1f s, on %s", now.Sub(s.began).Seconds(), s.address), bold},
		{},
		{"leader    none", red},
		{"queue     " + join(s.queue), ""},
		{"follower  knows " + cmp.Or(s.known, "none"), ""},
		{},
	}
	if p := s.processes[s.leader]; p != nil && p.fate == frozen {
		rows[2] = row{"leader    " + s.leader + ", frozen", yellow}
	} else if p != nil {
		since := s.term.began.Add(s.term.took)
		rows[2] = row{fmt.Sprintf("leader    %s since %s, for %.1f s, token %d",
			s.leader, since.Format("15:04:05.000"), now.Sub(since).Seconds(), s.term.token), green}
	}
	for _, name := range candidates {
		if p := s.processes[name]; p != nil {
			rows = append(rows, s.state(p))
		}
	}
	rows = append(rows, row{})
	for i, line := range table(s.turns) {
		rows = append(rows, row{line, map[bool]string{true: faint}[i == 0]})
	}
	rows = append(rows, row{})
	room := min(max(height-len(rows), 0), latestEvents, len(s.logged))
	for _, e := range s.logged[len(s.logged)-room:] {
		rows = append(rows, row{e.String(), map[bool]string{true: faint}[e.Who != "demo"]})
	}
	return rows[:min(len(rows), max(height, 0))]
}

// state shows what a candidate does.
func (s *scene) state(p *process) row {
	doing, color := "waits", ""
	switch {
	case p.fate != "":
		doing, color = p.fate, yellow
	case s.leader == p.name:
		doing, color = "leads", green
	case !slices.Contains(s.queue, p.name):
		doing, color = "is not in the queue", faint
	}
	return row{fmt.Sprintf("%-8s  process %d %s", p.name, p.cmd.Process.Pid, doing), color}
}
