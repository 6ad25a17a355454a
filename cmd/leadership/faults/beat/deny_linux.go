package main

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// denyNamespaces makes the kernel refuse this thread, and what it executes, new namespaces, as a container's filter
// does: clone and unshare fail with EPERM if they ask for one, and clone3 with ENOSYS, since a filter can't read its
// arguments.
func denyNamespaces() error {
	const (
		namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
			unix.CLONE_NEWPID | unix.CLONE_NEWNET
		number, flags = 0, 16 // offsets in struct seccomp_data
	)
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	jump := func(test uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jt: yes, Jf: no, K: k}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	filter := []unix.SockFilter{
		load(number),
		jump(unix.BPF_JEQ, unix.SYS_CLONE3, 5, 0),
		jump(unix.BPF_JEQ, unix.SYS_CLONE, 1, 0),
		jump(unix.BPF_JEQ, unix.SYS_UNSHARE, 0, 2),
		load(flags),
		jump(unix.BPF_JSET, namespaces, 2, 0),
		answer(unix.SECCOMP_RET_ALLOW),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)),
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}
