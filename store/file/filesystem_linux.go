package file

import (
	"fmt"
	"path/filepath"
	"syscall"

	"github.com/go-leadership/leadership/internal/adapter"
)

// The types of file systems, from linux/magic.h and statfs(2).
const (
	ext4    = 0xef53 // and ext2, ext3
	xfs     = 0x58465342
	btrfs   = 0x9123683e
	f2fs    = 0xf2f52010
	tmpfs   = 0x01021994
	overlay = 0x794c7630
	procfs  = 0x9fa0
)

// durable reports whether synced data survives a crash of the machine. It refuses a file system that the store can't
// use.
func durable(dir string, kind uint32) (bool, error) {
	switch kind {
	case ext4, xfs, btrfs, f2fs:
		return true, nil
	case tmpfs:
		return false, nil
	case overlay:
		return false, adapter.Refuse("directory", dir, "it is on an overlay file system: containers that look the same have one each, "+
			"and would not exclude each other; mount a volume, or use /dev/shm for the processes of one container")
	}
	return false, adapter.Refuse("directory", dir, "its file system has the type %#x (statfs): use a directory on ext4, xfs, btrfs, f2fs or tmpfs. "+
		"The kernel does not tell of changes that other machines make, on NFS, CIFS, 9p or FUSE: for several machines take ZooKeeper, etcd or Consul", kind)
}

// fileSystem returns the type of the file system that a directory is on, or will be when it is made.
func fileSystem(dir string) (uint32, error) {
	for {
		var st syscall.Statfs_t
		err := syscall.Statfs(dir, &st)
		if err == nil {
			return uint32(st.Type), nil
		}
		if !missing(err) || dir == "/" {
			return 0, fmt.Errorf("find out the file system: %w", explain(failed("statfs", dir, err)))
		}
		dir = filepath.Dir(dir)
	}
}
