package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// settings are passed as an argument, by the supervisor to the guardian and by the guardian to the init. The command
// follows. Paths and arguments are bytes here and in request: JSON would change a string that is not UTF-8.
type settings struct {
	Mode        Kind
	User        bool          `json:",omitempty"` // a user namespace, too
	Path        []byte        `json:",omitempty"` // of the program
	Margin      time.Duration `json:",omitempty"` // m1
	TimerMargin time.Duration `json:",omitempty"` // m2
	StopTimeout time.Duration `json:",omitempty"`
	WaitAll     bool          `json:",omitempty"`
	Terminal    bool          `json:",omitempty"` // the command gets the terminal
	Files       int           `json:",omitempty"` // how many files the command gets
	Keep        int           `json:",omitempty"` // how many files follow, which the command does not get
	SelfTest    bool          `json:",omitempty"` // no command: the guardian stops itself
}

// request goes from the supervisor to the guardian, which passes it on to the init. One of the fields is set.
type request struct {
	Deadline instant        `json:",omitempty"` // the lease ends then
	Signal   syscall.Signal `json:",omitempty"` // for the command
	Stop     bool           `json:",omitempty"`
	Timeout  time.Duration  `json:",omitempty"` // with Stop: from TERM to KILL
	Start    bool           `json:",omitempty"` // to the init: start the command

	Probe int      `json:",omitempty"` // the number of a probe: start it, or kill it if Path is empty
	Path  []byte   `json:",omitempty"` // of the probe's program
	Args  [][]byte `json:",omitempty"` // of the probe
}

// report goes from the init to the guardian, which passes it on to the supervisor.
type report struct {
	Started bool               `json:",omitempty"`
	Pid     int                `json:",omitempty"` // of the command, as the process that started the command sees it
	Kill    instant            `json:",omitempty"` // when the guardian will kill the command unless there is a renewal
	Exited  bool               `json:",omitempty"`
	Probe   int                `json:",omitempty"` // the number of a probe that exited, or failed to start
	Status  syscall.WaitStatus `json:",omitempty"` // of what exited
	Cause   Cause              `json:",omitempty"` // why the guardian ends the command
	Late    bool               `json:",omitempty"` // the command could not be started since the lease ends too soon
	Failed  string             `json:",omitempty"` // the command, or the probe, could not be started
	Errno   syscall.Errno      `json:",omitempty"` // exec's, if it was exec that failed
	Note    string             `json:",omitempty"` // for the log
}

func bytesOf(args []string) (list [][]byte) {
	for _, arg := range args {
		list = append(list, []byte(arg))
	}
	return list
}

func stringsOf(list [][]byte) (args []string) {
	for _, arg := range list {
		args = append(args, string(arg))
	}
	return args
}

// link is one end of a connection of messages. It tells when the other end is gone.
type link struct {
	file *os.File
	fd   int
}

// newLinks returns the two ends. A child inherits an end only if the end is passed to it.
func newLinks() (ours, theirs link, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return link{}, link{}, fmt.Errorf("socketpair: %w", err)
	}
	return newLink(fds[0]), newLink(fds[1]), nil
}

func newLink(fd int) link { return link{os.NewFile(uintptr(fd), "guard"), fd} }

// maxMessage is how long a message may be.
const maxMessage = 64 << 10

// send sends a message and never blocks: the other side may be stopped.
func (l link) send(message any) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(data) > maxMessage {
		return unix.E2BIG
	}
	_, err = unix.SendmsgN(l.fd, data, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	return os.NewSyscallError("sendmsg", err)
}

// receive passes messages on until the other end is gone. It then closes the channel.
func receive[T any](l link, messages chan<- T) {
	defer close(messages)
	for {
		message, ok := receiveOne[T](l)
		if !ok {
			return
		}
		messages <- message
	}
}

// receiveOne waits for a message. It returns false when the other end is gone.
func receiveOne[T any](l link) (message T, ok bool) {
	buffer := make([]byte, maxMessage)
	for {
		n, err := l.file.Read(buffer)
		if errors.Is(err, unix.ECONNRESET) {
			continue // told once, if the other end closed with a message unread; what it has sent follows
		}
		if err != nil || n == 0 {
			return message, false
		}
		if json.Unmarshal(buffer[:n], &message) == nil {
			return message, true
		}
	}
}

// pending reports whether receiveOne would not wait.
func (l link) pending() bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}, 0)
	return n > 0
}

// ended reports whether the other end is gone. Messages might still be unread.
func (l link) ended() bool {
	poll := []unix.PollFd{{Fd: int32(l.fd)}}
	_, _ = unix.Poll(poll, 0)
	return poll[0].Revents&unix.POLLHUP != 0
}

// outbox sends requests. A request waits while the link's queue is full.
type outbox struct {
	link link
	left []request
}

func (o *outbox) send(r request) {
	o.left = append(o.left, r)
	o.flush()
}

// flush sends the requests that wait, in order, and reports whether some still wait.
func (o *outbox) flush() (waits bool) {
	for len(o.left) > 0 {
		if errors.Is(o.link.send(o.left[0]), unix.EAGAIN) {
			return true
		}
		o.left = o.left[1:]
	}
	return false
}

// flushInterval is how often an outbox with waiting requests is flushed.
const flushInterval = 10 * time.Millisecond
