package metrics

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
)

// Serve answers a request with all that is measured, in the text format of Prometheus, version 0.0.4.
func (s *Set) Serve(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	out := bufio.NewWriter(w)
	defer func() { _ = out.Flush() }()
	for _, f := range s.Gather() {
		_, _ = out.WriteString("# HELP " + f.Name + " " + f.Help + "\n# TYPE " + f.Name + " " + string(f.Kind) + "\n")
		for _, series := range f.Series {
			writeSeries(out, f, series)
		}
	}
}

func writeSeries(out *bufio.Writer, f Family, s Series) {
	line := func(suffix string, value float64, more ...string) {
		labels := make([]string, 0, 3)
		for i, name := range f.Labels {
			labels = append(labels, name+`="`+escape(s.Labels[i])+`"`)
		}
		labels = append(labels, more...)
		_, _ = out.WriteString(f.Name + suffix + "{" + strings.Join(labels, ",") + "} " + number(value) + "\n")
	}
	if s.Histogram == nil {
		line("", s.Value)
		return
	}
	for _, b := range s.Histogram.Buckets {
		line("_bucket", float64(b.Count), `le="`+number(b.Bound)+`"`)
	}
	line("_bucket", float64(s.Histogram.Count), `le="+Inf"`)
	line("_sum", s.Histogram.Sum)
	line("_count", float64(s.Histogram.Count))
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// escape escapes the value of a label.
func escape(s string) string { return escaper.Replace(s) }

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`) // once: it costs more than a replacement
