package file

import (
	"errors"
	"os"
	"syscall"
)

// ops are the calls by which a store reads and changes its directory. Tests record them, and make them fail.
type ops interface {
	mkdir(dir string) error
	rmdir(dir string) error
	symlink(target, path string) error
	readlink(path string) (string, error)
	rename(from, to string) error // of a directory that is not empty, or a file, replacing another
	unlink(path string) error
	chmod(path string, mode uint32) error
	list(dir string) ([]string, error)
	exists(path string) (bool, error)
	write(path, content string) error     // makes a file
	read(path string) (string, error)     // of a whole file
	lock(path string) (fd int, err error) // makes a file, and locks it until fd is closed, by the end of the process too
	free(path string) (bool, error)       // whether no process has the file locked
	sync(path string) error               // makes a file or directory durable
	close(fd int)
}

// kernel is the ops of the system. All files are closed on exec: a child that kept one would keep its lock.
type kernel struct{}

const (
	forReading = syscall.O_RDONLY | syscall.O_CLOEXEC
	newFile    = syscall.O_RDWR | syscall.O_CREAT | syscall.O_EXCL | syscall.O_CLOEXEC
)

// failed adds the call and the path to an error.
func failed(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: path, Err: err}
}

func (kernel) mkdir(dir string) error { return failed("mkdir", dir, syscall.Mkdir(dir, 0o777)) }
func (kernel) rmdir(dir string) error { return failed("rmdir", dir, syscall.Rmdir(dir)) }
func (kernel) symlink(target, p string) error {
	return failed("symlink", p, syscall.Symlink(target, p))
}
func (kernel) rename(from, to string) error { return failed("rename", from, syscall.Rename(from, to)) }
func (kernel) unlink(path string) error     { return failed("unlink", path, syscall.Unlink(path)) }
func (kernel) chmod(path string, mode uint32) error {
	return failed("chmod", path, syscall.Chmod(path, mode))
}
func (kernel) close(fd int) { _ = syscall.Close(fd) }

func (kernel) readlink(path string) (string, error) {
	buf := make([]byte, 512)
	n, err := syscall.Readlink(path, buf)
	if err != nil {
		return "", failed("readlink", path, err)
	}
	return string(buf[:n]), nil
}

func (kernel) exists(path string) (bool, error) {
	var st syscall.Stat_t
	err := syscall.Lstat(path, &st)
	if missing(err) {
		return false, nil
	}
	return err == nil, failed("lstat", path, err)
}

// list returns the names in a directory. It always finds a name that exists all the time, but might miss one that is
// renamed meanwhile.
func (kernel) list(dir string) (names []string, err error) {
	fd, err := open(dir, forReading|syscall.O_DIRECTORY|syscall.O_NOFOLLOW)
	if err != nil {
		return nil, failed("open", dir, err)
	}
	defer syscall.Close(fd)
	buf := make([]byte, 8<<10)
	for {
		n, err := syscall.ReadDirent(fd, buf)
		if n <= 0 || err != nil {
			return names, failed("readdir", dir, err)
		}
		_, _, names = syscall.ParseDirent(buf[:n], -1, names)
	}
}

func (kernel) write(path, content string) error {
	fd, err := open(path, newFile)
	if err != nil {
		return failed("open", path, err)
	}
	for left := []byte(content); len(left) > 0 && err == nil; {
		var n int
		n, err = syscall.Write(fd, left)
		left = left[max(n, 0):]
	}
	return failed("write", path, errors.Join(err, syscall.Close(fd)))
}

func (kernel) read(path string) (string, error) {
	content, err := os.ReadFile(path)
	return string(content), err
}

func (kernel) lock(path string) (int, error) {
	fd, err := open(path, newFile)
	if err != nil {
		return -1, failed("open", path, err)
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = syscall.Close(fd)
		return -1, failed("flock", path, err)
	}
	return fd, nil
}

func (kernel) free(path string) (bool, error) {
	fd, err := open(path, forReading)
	if err != nil {
		return false, failed("open", path, err)
	}
	defer syscall.Close(fd) // and with it the lock
	err = syscall.Flock(fd, syscall.LOCK_SH|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, failed("flock", path, err)
}

func (kernel) sync(path string) error {
	fd, err := open(path, forReading)
	if err != nil {
		return failed("open", path, err)
	}
	defer syscall.Close(fd)
	return failed("fsync", path, syscall.Fsync(fd))
}

func open(path string, flags int) (fd int, err error) {
	for {
		fd, err = syscall.Open(path, flags, 0o666)
		if err != syscall.EINTR {
			return fd, err
		}
	}
}
