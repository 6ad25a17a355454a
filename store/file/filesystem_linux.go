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
	nfs     = 0x6969
	cifs    = 0xff534d42
	smb     = 0x517b
	smb2    = 0xfe534d42
	v9fs    = 0x01021997
	fuse    = 0x65735546
	procfs  = 0x9fa0
)

// elsewhere names the file systems that other machines might change.
var elsewhere = map[uint32]string{nfs: "NFS", cifs: "CIFS", smb: "SMB", smb2: "SMB", v9fs: "9p", fuse: "FUSE"}

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
	if name, ok := elsewhere[kind]; ok {
		return false, adapter.Refuse("directory", dir, "it is on %s: the kernel does not tell of changes that another machine or program "+
			"makes there; use a local directory, or a store for several machines: ZooKeeper, etcd or Consul", name)
	}
	return false, adapter.Refuse("directory", dir, "its file system has the type %#x; use a directory on ext4, xfs, btrfs, f2fs or tmpfs", kind)
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
