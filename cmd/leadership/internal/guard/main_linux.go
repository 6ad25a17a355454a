package guard

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// The names under which this binary is executed again.
const (
	guardianName = "leadership-guardian"
	initName     = "leadership-init"
)

// linkFD is the link to the parent. The command's files follow, and then those to keep.
const linkFD = 3

// init keeps the main goroutine on the main thread: the kernel sends PR_SET_PDEATHSIG's signal when the thread that
// started the child ends, and the main thread does not end before the process.
func init() {
	if role() != nil {
		runtime.LockOSThread()
	}
}

func role() func(settings, []string) {
	switch os.Args[0] {
	case guardianName:
		return guardianMain
	case initName:
		return initMain
	}
	return nil
}

// Main does not return if the process was started as a guardian or as an init. Call it first in main, and in TestMain.
func Main() {
	run := role()
	if run == nil || len(os.Args) < 2 {
		return
	}
	var s settings
	if err := json.Unmarshal([]byte(os.Args[1]), &s); err != nil {
		fmt.Fprintf(os.Stderr, "%s is started by `leadership run` alone\n", os.Args[0])
		os.Exit(125)
	}
	for fd := linkFD; fd <= linkFD+s.Files+s.Keep; fd++ {
		unix.CloseOnExec(fd)
	}
	drainSignals()
	run(s, os.Args[2:])
	os.Exit(0)
}

// drainSignals lets no signal have an effect on this process. Its children get the dispositions that this process was
// started with: execve resets handlers, and ignored signals stay ignored. The supervisor passes the command's signals
// on.
func drainSignals() {
	drain := make(chan os.Signal, 1) // never read: os/signal drops what it can't deliver
	for s := syscall.Signal(1); s < 65; s++ {
		if s != syscall.SIGCHLD && !signal.Ignored(s) {
			signal.Notify(drain, s)
		}
	}
}

// spawn executes this binary again, under a name. Its descriptors are 0 to 2 of this process, the link and files.
func spawn(name string, s settings, command []string, l link, files []uintptr, attr syscall.ProcAttr) (int, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return 0, err
	}
	attr.Files = append([]uintptr{0, 1, 2, uintptr(l.fd)}, files...)
	pid, err := syscall.ForkExec("/proc/self/exe", append([]string{name, string(data)}, command...), &attr)
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", name, err)
	}
	return pid, nil
}

// inheritedFiles are the command's files in a guardian or an init.
func (s settings) inheritedFiles() []uintptr {
	var files []uintptr
	for i := range s.Files {
		files = append(files, uintptr(linkFD+1+i))
	}
	return files
}

// keptFiles are the files to keep in a guardian or an init.
func (s settings) keptFiles() []uintptr {
	var files []uintptr
	for i := range s.Keep {
		files = append(files, uintptr(linkFD+1+s.Files+i))
	}
	return files
}

// closeInherited closes the command's files, so that only the command's own copies keep a pipe open.
func (s settings) closeInherited() {
	for _, fd := range s.inheritedFiles() {
		_ = unix.Close(int(fd))
	}
}
