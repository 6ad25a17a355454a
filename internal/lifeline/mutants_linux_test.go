package lifeline

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/mutants"
)

// mistakes are changes of one place, each with the test that must fail then. TestMutants makes them, if the package
// is built with the tag mutants. Those of another user's processes take root.
var (
	mistakes = []mutants.Mutant{
		{"the end of the pipe alone counts", "member_linux.go",
			waits, "err := m.awaitPipe(time.Now().Add(time.Hour))\n\tdied := time.Now()\n", "TestStrayClose"},
		{"the end of the pipe alone counts, after execve", "member_linux.go",
			waits, "err := m.awaitPipe(time.Now().Add(time.Hour))\n\tdied := time.Now()\n", "TestCases/execve$"},
		{"the pidfd alone counts, with a vfork child", "member_linux.go",
			"err = m.awaitPipe(died)", "err = nil", "TestCases/vfork"},
		{"the pidfd alone counts, with a child that shares the files", "member_linux.go",
			"err = m.awaitPipe(died)", "err = nil", "TestCases/CLONE_FILES"},
		{"the pidfd alone counts, and a guardian has the pipe", "member_linux.go",
			"err = m.awaitPipe(died)", "err = nil", "TestGuardedWork"},
		{"a byte in the pipe counts as its end", "kernel_linux.go",
			"return happened(fd, pollHup)", "return happened(fd, pollHup|pollIn)", "TestCases/io_uring_in_a_child"},
		{"reads of the pipe can block", "member_linux.go",
			"return awaitHangup(m.pipe)", "_, _ = m.pipe.Read(make([]byte, 1))\n\treturn nil", "TestPipeThatBlocks"},
		{"the pipe is waited for before the last words are read", "member_linux.go",
			"listening.Wait()\n\tif err == nil {\n\t\terr = m.awaitPipe(died)\n\t}", "if err == nil {\n\t\terr = m.awaitPipe(died)\n\t}\n\tlistening.Wait()", "TestLastWords"},
		{"the pipe is waited for for ever", "member_linux.go",
			"return m.pipe.SetReadDeadline(deadline)", "_ = deadline\n\treturn nil", "TestPipeIsNotWaitedForForEver"},
		{"another event than POLLIN counts", "kernel_linux.go",
			"poll.revents&event != 0", "poll.revents != 0", "TestOnlyPollInCounts"},
		{"any descriptor passes for a pidfd", "kernel_linux.go",
			`return fmt.Errorf("no pidfd: %w", errno)`, "return nil", "TestOnlyAPidfdPasses"},
		{"the client's own pidfd counts, unchecked", "member_linux.go",
			"if kernel, err := peerPidfd(m.conn); err == nil {\n\t\t_ = pidfd.Close()\n\t\tpidfd = kernel\n\t}\n\tif err := control(pidfd, checkPidfd); err != nil {",
			"if err := error(nil); err != nil {", "TestPidfdOfAnother"},
		{"the lifeline knows one session where there are two", "member_linux.go",
			"m.sessions[e.ID] = session{", "clear(m.sessions)\n\tm.sessions[e.ID] = session{", "TestLifelineRestarts"},
		{"the program knows one session where there are two", "client_linux.go",
			"c.sessions[id], c.asking[id] =", "clear(c.sessions)\n\tc.sessions[id], c.asking[id] =", "TestLifelineRestarts"},
		{"sessions are not told again after a restart of the lifeline", "client_linux.go",
			"for _, session := range c.sessions {", "for _, session := range map[string]*handed{} {", "TestLifelineRestarts"},
		{"the next lifeline is not looked for", "client_linux.go",
			"timer := time.NewTimer(c.ttl - time.Since(tried))", "timer := time.NewTimer(time.Hour - time.Since(tried))", "TestNoLifeline"},
		{"a session that is not ended is not tried again", "server_linux.go",
			"if err == nil || last || time.Since(died) > one.ttl {", "if true || last {", "TestRetries"},
	}
	mistakesAboutUsers = []mutants.Mutant{
		{"the lifeline serves every user", "member_linux.go",
			"&& !m.server.allowed(user.Uid) {", "&& false {", "TestUsers"},
		{"the program trusts every user's lifeline", "client_linux.go",
			"if user.Uid != 0 && user.Uid != uint32(os.Geteuid()) {", "if user.Uid == 12345 && os.Geteuid() == 12345 {", "TestImpostor"},
	}
)

// waits are the lines that wait for the pidfd.
const waits = "err := awaitExit(m.pidfd)\n\tdied := time.Now()\n"

func TestMutantsAreOfThisSource(t *testing.T) {
	mutants.Check(t, mistakes)
	mutants.Check(t, mistakesAboutUsers)
}
