// Package file is the store for the processes of one machine: a coordination service that is a directory, without a
// server. It needs Linux.
//
//	import _ "github.com/go-leadership/leadership/store/file"
//	st, err := store.Open(ctx, "file:///home/me/election?ttl=10s", nil)
//
// or [Open] with a [Config]. Options of the URL: ttl and grace.
//
// A leader that is killed is replaced within milliseconds, since the kernel tells of its death; one that is frozen
// after its TTL. When it goes on, its lease has ended: both count the time that the machine was suspended.
//
// # The leader, for other programs
//
//	cat /home/me/election/e/<election>/_leader
//
// prints the acknowledged value, as it is. The link changes in one step, before Acknowledge returns, and shows no value that
// was not acknowledged. While none leads the link points nowhere, and cat fails. If the leader's process has crashed, the
// link points to its value until another candidate, or a follower that may write, has noticed. After a crash of the
// machine it points to an old value, or to one that is empty since it was not on the disk yet, until one of them is started.
//
// # Who may take part
//
// Candidates need to read and write the directory, which the first of them makes. Followers need to read it. If they
// may write, they also remove sessions that have ended, and their ballots. What is made has the permissions that the
// umask allows. But if the directory is writable for its group, all in it has the directory's permissions, whatever the
// umask. So users of a group share one after
//
//	mkdir election; chgrp GROUP election; chmod 2770 election
//
// They trust each other with the elections: each of them can end any session. A directory that all users may write to
// is refused.
//
// The file system is one that is tested: ext2 to ext4, XFS, Btrfs, F2FS or tmpfs. Others are refused before anything is
// made: NFS, CIFS, 9p and FUSE, which other machines change without a word to this kernel; overlay, since two
// containers that use the same path have one each, and do not exclude each other. Containers share a volume.
//
// # Layout
//
//	version                                 the version of this layout: 2
//	t/                                      what is under construction
//	s/<session>/<deadline>                  a session: one file, locked by its owner; its name is the deadline
//	f/<floor>-<end>                         a floor of numbers, see below
//	e/<election>/_b/<session>.<nonce>.<try> a ballot, with its value and acknowledged values; "~" in front: withdrawn
//	e/<election>/_q/<number>                a ticket: a link to a ballot; the number is the token
//	e/<election>/_a/<number>                an acknowledgement: a link to a value of a ballot; the number is the revision
//	e/<election>/_leader                    a link to the value of the leader
//
// State is names. What counts for others changes by one system call: mkdir, symlink, rename, unlink or rmdir. So no
// process can be frozen inside a critical section.
//
//   - A session is made in t with its file, which is locked with flock, and then renamed to s. A renewal renames the
//     file to the next deadline: the old name is gone if a peer has removed it, so the rename is a compare-and-swap.
//     Deadlines are of CLOCK_BOOTTIME, which all processes share and which goes on while the machine is suspended.
//   - A session is over if the lock is free, since its process has gone, or if its deadline has passed. The process
//     that finds it over removes the file, which fails if the session has been renewed. A renewal after the deadline
//     does not count, so that processes that may only read agree.
//   - A ballot stands while its directory has its name, and its session is not over. All ballots of a session end at
//     once.
//   - To cast one, a process makes its directory, and then the ticket with the lowest number above the floor and all
//     tickets. It then reads the floor again: if that is not below the number, the ticket is void, and another is
//     taken. What is ahead of a ticket is listed after it was made: a listing under way might miss one that is made
//     meanwhile.
//   - A process that waits watches the nearest ballot ahead that stands, and its session, with inotify. Renewals are
//     not watched.
//   - The leader is the highest acknowledgement whose ballot stands. To withdraw a ballot is to rename its directory,
//     which takes the acknowledgement along. Before a ballot is first, those ahead of it have been withdrawn: what
//     their owners may still do has no effect.
//   - Tickets of ballots that have gone are removed after a floor at the highest ticket has been made.
//
// # Why it is right
//
// One leader: a session ends only when its process has gone, or after its deadline; the lease ends a grace before that.
// A ballot is first when none of those with lower tickets stands. A lower ticket can come later only if its number was
// skipped, or has been used before and was removed. Then a floor above it was made first, and its owner sees that in its
// second look.
//
// Growing tokens: a floor also names an end, below which numbers may be given out. The end is durable before any is. What
// else was written is not synced, so a power failure may undo it. A process can't know whether there was one, so each
// begins with a floor at the highest end. Numbers are not further above the highest floor than a block of 64. So if an
// election has no entries, since it is new or they were removed, a floor that is a block higher is above all that were
// given out. If the floors were removed, and in a new directory, the next one is at the wall clock in microseconds, and a
// ticket is above those that are left.
//
// Never stuck: every wait ends with one session, and every session by its deadline.
//
// # Limits
//
//   - One kernel: virtual machines that share a disk do not exclude each other.
//   - One clock: processes in time namespaces read the same one, since the store subtracts their offsets. It reads them in
//     /proc, which has to show the process itself: Open refuses that of another PID namespace.
//   - As in any service, what is deleted by hand while it is in use is lost: two might lead for a moment. If the directory is
//     moved away, all processes are told at once, and elect a leader in a new one. If a part of it is moved, or a link in
//     its path is changed, an old leader notices with its next renewal, after a quarter of its TTL. Remove elections with
//     Clear. If the floors are removed, and the wall clock is set back, tokens might begin lower.
//   - The kernel takes longer to end a process with much memory: tens of milliseconds for each gigabyte.
//   - A child process that a leader was forking when it was killed keeps the lock until it has called exec. A child that
//     was given the ballot's SessionFile keeps it until it ends.
//   - If a waiter is frozen when its turn comes, the next in line waits for its TTL.
//   - If the disk is full, a leader goes on leading and hands over; Cast and Acknowledge fail.
//   - Calls return with their contexts, but system calls can't be interrupted: if a disk hangs for good, so does Close. If
//     a request takes a TTL, the session is not renewed until it returns, so that others do not wait for its ballots.
//   - A candidate changes one name each quarter of a TTL, and a journal writes that to the disk: on SD cards use /run or
//     /dev/shm.
package file

import (
	"github.com/go-leadership/leadership/store/engine"
)

// Store is one session, opened at the first Cast. It implements store.Store.
type Store struct{ *engine.Engine }

// Open opens a store. It checks the settings and the file system, and makes nothing: the first Cast does. It fails
// with store.ErrUnavailable if the user has too many inotify instances: each process has one for all its stores.
func Open(config Config) (*Store, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	if err := config.refuseWritable(); err != nil {
		return nil, err
	}
	d, err := newDriver(config)
	if err != nil {
		return nil, err
	}
	return newStore(d, config), nil
}

func newStore(d engine.Driver, c Config) *Store {
	return &Store{engine.New(d, engine.Settings{
		Name: c.name(), TTL: c.TTL, Pace: c.TTL / 4,
		RemovedReason: "its directory was removed", Logger: c.Logger, Renewed: c.Renewed,
		RaiseTokens: "stop all processes and remove the directory, since tokens of a new one begin at the wall clock",
	})}
}
