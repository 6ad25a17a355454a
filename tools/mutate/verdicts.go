package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// verdicts are those given so far, in a file with one line each.
type verdicts struct {
	given map[string]verdict
	file  *os.File
}

// openVerdicts reads the file, which may not exist yet. Without a path nothing is kept.
func openVerdicts(path string) (*verdicts, error) {
	v := &verdicts{given: map[string]verdict{}}
	if path == "" {
		return v, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	v.file = file
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if given, name, ok := strings.Cut(lines.Text(), " "); ok {
			v.given[name] = verdict(given)
		}
	}
	return v, lines.Err()
}

func (v *verdicts) of(name string) (verdict, bool) {
	given, known := v.given[name]
	return given, known
}

func (v *verdicts) add(name string, given verdict) error {
	v.given[name] = given
	if v.file == nil {
		return nil
	}
	_, err := fmt.Fprintf(v.file, "%s %s\n", given, name)
	return err
}

func (v *verdicts) close() {
	if v.file != nil {
		_ = v.file.Close()
	}
}

// readExplained reads the names of the survivors that are explained: the lines that are not indented, apart from those
// that begin with #. The indented lines below a name say why no test notices the change.
func readExplained(path string) (map[string]bool, error) {
	names := map[string]bool{}
	if path == "" {
		return names, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	last := ""
	for line := range strings.Lines(string(content)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "\t"):
			names[last] = true
		default:
			last = line
		}
	}
	return names, nil
}
