// Command beat is the command of the trials in package faults, and what prepares them.
//
//	beat run FILE plain|child|daemon|forking   beat until the file says stop
//	beat enter [flags] -- COMMAND ARGS...      become what a trial needs, and execute a command
//	beat hog                                   allocate memory until the kernel kills this process
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		fail("no subcommand")
	}
	runtime.LockOSThread()
	switch os.Args[1] {
	case "run":
		if len(os.Args) != 4 {
			fail("run takes a file and a variant")
		}
		beat(os.Args[2], os.Args[3])
	case "enter":
		enter(os.Args[2:])
	case "hog":
		hog()
	default:
		fail("there is no subcommand %q", os.Args[1])
	}
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "beat: "+format+"\n", args...)
	os.Exit(3)
}

func check(what string, err error) {
	if err != nil {
		fail("%s: %v", what, err)
	}
}

// enter joins cgroups, becomes a user, denies itself namespaces, in this order, and executes a command.
func enter(args []string) {
	flags := flag.NewFlagSet("enter", flag.ExitOnError)
	cgroups := flags.String("cgroups", "", "directories of cgroups, with commas between them")
	user := flags.Int("user", 0, "user and group; 0: as now")
	victim := flags.Int("victim", 0, "how readily the kernel kills this process when memory is used up")
	deny := flags.Bool("deny", false, "deny namespaces")
	check("flags", flags.Parse(args))
	for dir := range strings.SplitSeq(*cgroups, ",") {
		if dir != "" {
			check("cgroup", os.WriteFile(dir+"/cgroup.procs", []byte("0"), 0))
		}
	}
	if *victim != 0 {
		check("oom_score_adj", os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(*victim)), 0))
	}
	if *user != 0 {
		check("setgroups", syscall.Setgroups(nil))
		check("setgid", syscall.Setgid(*user))
		check("setuid", syscall.Setuid(*user))
	}
	if *deny {
		check("seccomp", denyNamespaces())
	}
	path, err := exec.LookPath(flags.Arg(0))
	check("command", err)
	check("exec", syscall.Exec(path, flags.Args(), os.Environ()))
}

// hog takes memory step by step.
func hog() {
	var taken [][]byte
	for range 4096 {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		taken = append(taken, block)
		time.Sleep(time.Millisecond)
	}
	runtime.KeepAlive(taken)
}
