// Package docs tests that what the README shows is true.
package docs

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/internal/demo"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	demo.Child()
	goleak.VerifyTestMain(m)
}

const mostLines = 200

// Each block of Go in the README compiles, and the README stays short.
func TestReadmeCompiles(t *testing.T) {
	require.LessOrEqual(t, strings.Count(readme(t), "\n"), mostLines)
	for _, block := range blocks(t, "go") {
		formatted, err := format.Source([]byte(block))
		require.NoError(t, err)
		require.Equal(t, string(formatted), block)
		source := program(block)
		output, err := exec.CommandContext(t.Context(), "go", "vet", write(t, source)).CombinedOutput()
		require.NoError(t, err, "%s\n%s", output, source)
	}
}

func readme(t *testing.T) string {
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	return string(text)
}

// blocks returns the README's blocks in a language, "" for blocks without one.
func blocks(t *testing.T, language string) (list []string) {
	open := false
	for part := range strings.SplitSeq("\n"+readme(t), "\n```") {
		if open {
			if is, block, _ := strings.Cut(part, "\n"); is == language {
				list = append(list, block+"\n")
			}
		}
		open = !open
	}
	require.NotEmpty(t, list)
	return list
}

// program returns a whole program: the block itself, or one that opens a store and runs the block, with a function connect
// that prints the value.
func program(block string) string {
	if strings.HasPrefix(block, "package ") {
		return block
	}
	return `package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/file"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	st, err := store.Open(ctx, os.Args[1], nil)
	if err != nil {
		return err
	}
	defer st.Close()
	` + block + `}

func connect(address string) { fmt.Printf("connect to %q\n", address) }
`
}

// write writes a program to a file.
func write(t *testing.T, program string) (source string) {
	source = filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(source, []byte(program), 0o600))
	return source
}
