package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-leadership/leadership/internal/visible"
	"github.com/mattn/go-isatty"
)

// style is how to print to a stream.
type style struct {
	terminal bool // a terminal, on which lines can be written again
	color    bool
}

// styleOf returns the style of a file. NO_COLOR is respected: see no-color.org.
func styleOf(f *os.File) style {
	terminal := isatty.IsTerminal(f.Fd())
	color := terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return style{terminal, color}
}

// The colours of "Select Graphic Rendition".
const (
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// paint returns a text in a colour, if there are colours.
func (s style) paint(color, text string) string {
	if !s.color || color == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[m"
}

// brief is a value for a line that has to fit a terminal.
func brief(value string) string {
	const most = 40
	if runes := []rune(value); len(runes) > most {
		value = string(runes[:most]) + "..."
	}
	return visible.Value(value)
}

// cell is a field of a table.
type cell struct{ text, color string }

// table prints rows in columns. The first row is the head.
func (s style) table(w io.Writer, rows [][]cell) error {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	var b strings.Builder
	for n, row := range rows {
		for i, c := range row {
			color := c.color
			if n == 0 {
				color = faint
			}
			b.WriteString(s.paint(color, c.text))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// texts makes a row without colours.
func texts(list ...string) []cell {
	row := make([]cell, len(list))
	for i, text := range list {
		row[i].text = text
	}
	return row
}

// printJSON prints one line of JSON, in which the characters that might steer a terminal are escaped.
func printJSON(w io.Writer, v any) error {
	var text, line strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	for _, r := range text.String() {
		switch {
		case r == '\n' || strconv.IsPrint(r):
			line.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&line, `\u%04x\u%04x`, high, low)
		default: // it is part of a string: JSON itself has no such characters
			fmt.Fprintf(&line, `\u%04x`, r)
		}
	}
	_, err := io.WriteString(w, line.String())
	return err
}

// placeJSON says where an election is held.
type placeJSON struct {
	Store    string `json:"store"`
	Election string `json:"election"`
}

func (f electionFlags) place() placeJSON { return placeJSON{f.address(), f.Election} }

// noLeader is the answer that there is no leader.
func (f electionFlags) noLeader() error {
	return &failure{code: exitNo, err: fmt.Errorf("there is no leader in %v", f), advice: "leadership ballots shows who stands; --wait=DURATION waits for a leader"}
}
