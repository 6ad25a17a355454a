package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

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

// printable returns a value as a person reads it: quoted if it has a character that a terminal does not just show.
func printable(value string) string {
	if value != "" && strings.TrimSpace(value) == value && utf8.ValidString(value) && !strings.ContainsFunc(value, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return value
	}
	return strconv.Quote(value)
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

// printJSON prints one line of JSON.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// valueJSON is a value in JSON. A value may be any bytes, and JSON has text only.
type valueJSON struct {
	Value string `json:"value"`                  // bytes that are not UTF-8 are replaced
	Bytes string `json:"value_base64,omitempty"` // the exact bytes, if the value is not UTF-8
}

func valueOf(value string) valueJSON {
	if utf8.ValidString(value) {
		return valueJSON{Value: value}
	}
	return valueJSON{Value: strings.ToValidUTF8(value, "\ufffd"), Bytes: base64.StdEncoding.EncodeToString([]byte(value))}
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
