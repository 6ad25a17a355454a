package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"strings"

	"github.com/go-leadership/leadership/internal/suite"
)

// The elements of JUnit's XML, as CI services read it.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     string      `xml:"time,attr"` // seconds
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitFailure `xml:"failure"`
		Skipped *struct{}     `xml:"skipped"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit writes the results to a file.
func writeJUnit(path, address string, results []suite.Result) error {
	s := junitSuite{
		Name: "conformance of " + address, Tests: len(results),
		Failures: suite.Count(results, suite.Failed), Skipped: suite.Count(results, suite.NotRun),
	}
	total := 0.0
	for _, r := range results {
		c := junitCase{Class: strings.Join(append([]string{"conformance"}, r.Promises...), "."), Name: r.Name, Time: fmt.Sprintf("%.3f", r.Took.Seconds())}
		switch r.Outcome {
		case suite.Failed:
			c.Failure = &junitFailure{r.Explains, r.Log}
		case suite.NotRun:
			c.Skipped = &struct{}{}
		}
		total += r.Took.Seconds()
		s.Cases = append(s.Cases, c)
	}
	s.Time = fmt.Sprintf("%.3f", total)
	text, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(xml.Header+string(text)+"\n"), 0o644)
}
