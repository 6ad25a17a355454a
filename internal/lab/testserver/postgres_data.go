package testserver

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// initdb makes a data directory.
func initdb(ctx context.Context, programs, dir, data string) error {
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte(PostgresPassword+"\n"), 0o644); err != nil {
		return err
	}
	args := append([]string{"-D", data, "--pwfile=" + password}, initdbFlags...)
	return runIn(ctx, dir, filepath.Join(programs, "initdb"), args...)
}

var initdbFlags = []string{"-U", PostgresUser, "-E", "UTF8", "--locale=C.UTF-8", "-A", "trust", "--no-sync"}

// runIn runs a program of PostgreSQL's to its end, as the user that runs the server.
func runIn(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, postgresEnv()
	cmd.WaitDelay = time.Second // pg_basebackup has a child
	asNobody(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(ctx.Err(), fmt.Errorf("testserver: %s: %w\n%s", name, err, out))
	}
	return nil
}

// templateMutex is held while the template is looked for and made: at most once in a process.
var templateMutex sync.Mutex

// copyTemplate copies a data directory as initdb makes it. The original is kept in the user's cache directory.
func copyTemplate(ctx context.Context, programs, data string) error {
	templateMutex.Lock()
	defer templateMutex.Unlock()
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("no directory to keep PostgreSQL's first data in: %w", err)
	}
	cache = filepath.Join(cache, "go-leadership", "testserver")
	flags := fnv.New32a()
	flags.Write([]byte(strings.Join(initdbFlags, " ")))
	template := filepath.Join(cache, fmt.Sprintf("postgresql-%s-%x", filepath.Base(filepath.Dir(programs)), flags.Sum32()))
	if _, err := os.Stat(template); errors.Is(err, fs.ErrNotExist) {
		err = makeTemplate(ctx, programs, cache, template)
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	return copyTree(template, data)
}

// makeTemplate makes the template elsewhere, since nobody may write to a directory of root's, and has it appear whole.
func makeTemplate(ctx context.Context, programs, cache, template string) (err error) {
	dir, err := os.MkdirTemp("", "initdb-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	data := filepath.Join(dir, "data")
	if err := errors.Join(giveAway(dir), initdb(ctx, programs, dir, data), os.MkdirAll(cache, 0o755)); err != nil {
		return err
	}
	part, err := os.MkdirTemp(cache, "initdb-")
	if err != nil {
		return err
	}
	if err := errors.Join(copyTree(data, part), os.Rename(part, template)); err != nil {
		err = errors.Join(err, os.RemoveAll(part))
		if _, none := os.Stat(template); none == nil {
			return nil // another process was faster
		}
		return err
	}
	return nil
}

// copyTree copies what is in a directory, with the owners and modes, on which servers insist.
func copyTree(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	if out, err := exec.Command("cp", "-a", from+"/.", to).CombinedOutput(); err != nil {
		return fmt.Errorf("testserver: cp: %w\n%s", err, out)
	}
	return nil
}
