package testserver

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// nobody is the user as whom a server runs that refuses root, if the tests run as root.
const nobody = 65534

func asNobody(cmd *exec.Cmd) {
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
}

// giveAway makes the user nobody the owner of a directory and all that is in it, if the tests run as root.
func giveAway(dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	for parent := filepath.Dir(dir); parent != "/"; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			return err
		}
		if info.Mode()&0o001 == 0 {
			return fmt.Errorf("testserver: a server that root starts runs as nobody, who may not enter %s: choose another TMPDIR", parent)
		}
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, nobody, nobody))
	})
}

// mountDisk mounts a small disk. It is unmounted by what mountDisk returns, or when this process is killed.
func mountDisk(dir string, size int64) (unmount func() error, err error) {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		return nil, fmt.Errorf("testserver: a small disk needs root, in a container with the capability CAP_SYS_ADMIN: %w", err)
	}
	guard, err := startGuard(`umount -l "$1"`, dir)
	if err != nil {
		return nil, errors.Join(err, syscall.Unmount(dir, 0))
	}
	return func() error { return guard.release() }, nil
}

// removeSharedMemory removes the System V segment of a server that was killed. Another server in the directory would do so.
func removeSharedMemory(data string) error {
	const line = 7 // "key id"
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	lines := bytes.Split(text, []byte("\n"))
	if len(lines) < line {
		return nil
	}
	fields := bytes.Fields(lines[line-1])
	if len(fields) != 2 {
		return nil
	}
	id, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return err
	}
	_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EIDRM) {
		return nil // it is gone
	}
	return err
}
