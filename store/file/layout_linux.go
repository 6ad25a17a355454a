package file

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-leadership/leadership/internal/adapter"
)

// layout is the version of the layout. Programs with different layouts would not exclude each other.
const layout = 2

// The directories of a store. The comment of the package says what is in them.
func (d *driver) root() string                { return d.config.Directory }
func (d *driver) versionFile() string         { return d.root() + "/version" }
func (d *driver) floorDir() string            { return d.root() + "/f" }
func (d *driver) sessionDir(id string) string { return d.root() + "/s/" + id }

// temporary returns a path for a file that is renamed when it is complete. Its name contains the time.
func (d *driver) temporary() string {
	return fmt.Sprintf("%s/t/%016x-%s", d.root(), int64(d.clock()), unique())
}

// electionDir is the directory of an election.
type electionDir string

func (d *driver) dirOf(election string) electionDir { return electionDir(d.root() + "/e/" + election) }

func (p electionDir) queue() string             { return string(p) + "/_q" }
func (p electionDir) acks() string              { return string(p) + "/_a" }
func (p electionDir) ballots() string           { return string(p) + "/_b" }
func (p electionDir) leader() string            { return string(p) + "/_leader" }
func (p electionDir) ballot(name string) string { return p.ballots() + "/" + name }

// ballotName returns the name of a ballot's directory. If the ticket of a cast is void, the cast is tried again with
// another name.
func ballotName(session, nonce string, try uint64) string {
	return session + "." + nonce + "." + strconv.FormatUint(try, 10)
}

// splitBallot returns the session and the nonce of a ballot.
func splitBallot(name string) (session, nonce string, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 3 || parts[0] == "" {
		return "", "", false
	}
	return parts[0], parts[1], true
}

// pointed returns the name of the ballot to which a ticket or an acknowledgement points, and the file in it; none if it is
// not ours.
func pointed(d *driver, link string) (name, file string, err error) {
	target, err := d.ops.readlink(link)
	if errors.Is(err, syscall.EINVAL) { // it is no link
		return "", "", nil
	}
	name, file, _ = strings.Cut(strings.TrimPrefix(target, "../_b/"), "/")
	if _, _, ok := splitBallot(name); !ok {
		return "", "", err
	}
	return name, file, err
}

// key names an entry for the engine.
func key(election string, n uint64, name string) string {
	return election + "//" + strconv.FormatUint(n, 10) + "/" + name
}

func splitKey(k string) (election string, n uint64, name string) {
	election, rest, _ := strings.Cut(k, "//")
	number, name, _ := strings.Cut(rest, "/")
	n, _ = strconv.ParseUint(number, 10, 64)
	return election, n, name
}

// numbered returns the numbers among names, in ascending order.
func numbered(names []string) (list []uint64) {
	for _, name := range names {
		if n, err := strconv.ParseUint(name, 10, 62); err == nil && strconv.FormatUint(n, 10) == name {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}

func numberIn(dir string, n uint64) string { return dir + "/" + strconv.FormatUint(n, 10) }

// version returns the version of the directory's layout, 0 if there is none yet, and refuses another one than ours.
func (d *driver) version() (int, error) {
	text, err := d.ops.read(d.versionFile())
	if missing(err) {
		return 0, nil
	}
	if err != nil {
		return 0, explain(err)
	}
	first, _, _ := strings.Cut(text, "\n")
	if v, err := strconv.Atoi(first); err != nil || v != layout {
		return 0, adapter.Refuse("directory", d.root(), "its file version says %q; this program knows version %d alone: "+
			"use the same release in all programs, or another directory", first, layout)
	}
	return layout, nil
}

// make creates the missing parts of the directory.
func (d *driver) make() error {
	if err := d.makeRoot(d.root()); err != nil {
		return err
	}
	if err := d.share(); err != nil {
		return err
	}
	for _, name := range []string{"t", "s", "e", "f"} {
		if err := d.makeDir(d.root() + "/" + name); err != nil {
			return err
		}
	}
	v, err := d.version()
	if err != nil {
		return err
	}
	if v != 0 {
		return nil
	}
	text := fmt.Sprintf("%d\nThe version of the layout of this directory. It belongs to github.com/go-leadership/leadership.\n", layout)
	return d.inOneStep(d.versionFile(), func(temporary string) error { // after a power failure it has its content, or is not there
		if err := d.makeFile(temporary, text); err != nil {
			return err
		}
		return d.ops.sync(temporary)
	})
}

// makeRoot creates a directory with its parents.
func (d *driver) makeRoot(dir string) error {
	err := d.ops.mkdir(dir)
	if missing(err) && dir != "/" {
		if err := d.makeRoot(path.Dir(dir)); err != nil {
			return err
		}
		err = d.ops.mkdir(dir)
	}
	if taken(err) {
		return nil
	}
	return err
}

// share finds out whether the directory is shared: whether its group, or all users, may write to it. Everything made in
// it then gets the directory's permissions, whatever the umask.
func (d *driver) share() error {
	if err := d.config.refuseWritable(); err != nil {
		return err
	}
	var st syscall.Stat_t
	if err := syscall.Stat(d.root(), &st); err != nil {
		return failed("stat", d.root(), err)
	}
	mode := uint32(0)
	if st.Mode&0o020 != 0 {
		mode = st.Mode & 0o2777
	}
	d.mode.Store(mode)
	return nil
}

// allow gives a new directory or file the permissions of a shared directory.
func (d *driver) allow(path string, mask uint32) error {
	if mode := d.mode.Load(); mode != 0 {
		return d.ops.chmod(path, mode&mask)
	}
	return nil
}

const forDirs, forFiles = 0o2777, 0o666

// makeDir makes a directory that others may use at once: in a shared directory it appears with its permissions.
func (d *driver) makeDir(dir string) error {
	if there, err := d.ops.exists(dir); there || err != nil {
		return err
	}
	made := func(dir string) error {
		if err := d.ops.mkdir(dir); err != nil {
			return err
		}
		return d.allow(dir, forDirs)
	}
	var err error
	if d.mode.Load() != 0 && path.Base(dir) != "t" {
		err = d.inOneStep(dir, made)
	} else {
		err = made(dir)
	}
	if taken(err) {
		return nil
	}
	return err
}

// makeFile makes a file.
func (d *driver) makeFile(path, content string) error {
	if err := d.ops.write(path, content); err != nil {
		return err
	}
	return d.allow(path, forFiles)
}

// link makes a symbolic link in one step, and replaces an existing one.
func (d *driver) link(target, path string) error {
	return d.inOneStep(path, func(temporary string) error {
		return d.made(d.make, func() error { return d.ops.symlink(target, temporary) })
	})
}

// inOneStep makes something under a temporary name, and renames it to its path.
func (d *driver) inOneStep(path string, make func(temporary string) error) error {
	temporary := d.temporary()
	err := make(temporary)
	if err == nil {
		err = d.ops.rename(temporary, path)
	}
	if err != nil {
		d.clean(temporary)
	}
	return err
}

// clean removes a file, or a directory with the files in it.
func (d *driver) clean(path string) {
	if d.ops.unlink(path) == nil {
		return
	}
	names, _ := d.ops.list(path)
	for _, name := range names {
		_ = d.ops.unlink(path + "/" + name)
	}
	_ = d.ops.rmdir(path)
}

// makeElection makes the directories of an election.
func (d *driver) makeElection(p electionDir) error {
	dir := d.root() + "/e"
	for _, dir := range []string{dir, d.floorDir()} {
		if there, err := d.ops.exists(dir); err != nil {
			return err
		} else if !there {
			if err := d.make(); err != nil {
				return err
			}
		}
	}
	for part := range strings.SplitSeq(string(p)[len(dir)+1:], "/") {
		dir += "/" + part
		if err := d.makeDir(dir); err != nil {
			return err
		}
	}
	for _, dir := range []string{p.queue(), p.acks(), p.ballots()} {
		if err := d.makeDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// made calls do. If something is missing for it, it calls makes and tries again.
func (d *driver) made(makes, do func() error) error {
	for tries := 0; ; tries++ {
		err := do()
		if !missing(err) || tries == 3 { // it is cleared again and again
			return err
		}
		if err := makes(); err != nil && !missing(err) {
			return err
		}
	}
}
