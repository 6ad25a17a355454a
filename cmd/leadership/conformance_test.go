package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/suite"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// A case that fails is in the table and in the file for CI, with its log.
func TestFailedCase(t *testing.T) {
	each := conformance.Cases()[0]
	result := check(each, conformance.Harness{
		Open: func(context.Context, conformance.DialFunc) (store.Store, error) {
			return nil, errors.New("no <store> today")
		},
		Clear: func(context.Context, string) error { return nil },
	})
	require.Equal(t, suite.Failed, result.Outcome)
	require.Contains(t, result.Log, "no <store> today")

	result.Took = 1234 * time.Millisecond
	var out bytes.Buffer
	c := &conformanceCmd{storeFlags: storeFlags{storeFlag: storeFlag{Store: "file:///x"}}}
	require.NoError(t, c.print(&app{out: &out}, []suite.Result{result}))
	require.Contains(t, out.String(), each.Name+"  G1 G3     FAILED  1.2s\n")

	file := filepath.Join(t.TempDir(), "results.xml")
	require.NoError(t, writeJUnit(file, c.address(), []suite.Result{result}))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), `tests="1" failures="1"`)
	require.Contains(t, string(text), `time="1.234"`)
	require.Contains(t, string(text), "no &lt;store&gt; today")
}
