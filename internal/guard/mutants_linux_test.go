package guard

import (
	"testing"

	"github.com/go-leadership/leadership/internal/mutants"
)

// mistakes are the mutants of TestMutants, which is built with the tag mutants.
var mistakes = []mutants.Mutant{
	{"no timer in the kernel", "guardian_linux.go",
		"deadline.add(-g.TimerMargin)", "deadline.add(1e15)", "TestSelfTest$"},
	{"no timer in the kernel, except for the self-test", "guardian_linux.go",
		"deadline.add(-g.TimerMargin)", "deadline.add(map[bool]time.Duration{true: 0, false: 1e15}[g.SelfTest])",
		"TestFaults/.*/supervisor_and_guardian_stopped"},
	{"the self-test takes any end of a guardian", "selftest_linux.go",
		"case v.silent:", "case false:", "TestSelfTestNoticesMissingTimer"},
	{"Wait returns on the guardian's exit", "supervisor_linux.go",
		"if reap(v.changed) {", "if reap(v.changed) || v.guardian == 0 {", "TestFaults/user_with_a_subreaper/guardian_killed"},
	{"the supervisor adopts nothing", "supervisor_linux.go",
		"PR_SET_CHILD_SUBREAPER, 1", "PR_SET_CHILD_SUBREAPER, 0", "TestFaults/user_with_a_subreaper/guardian_killed"},
	{"the init outlives the guardian", "init_linux.go",
		"uintptr(unix.SIGKILL)", "0", "TestFaults/.*_in_a_namespace/all_stopped"},
	{"a late renewal takes TERM back", "guardian_linux.go",
		"g.ending != Stopped {", "g.ending != Stopped {\n\t\tg.ending = \"\"\n\t}\n\tif g.killing {", "TestFaults/.*/a_late_renewal"},
	{"the guardian does not kill", "guardian_linux.go",
		"if n >= g.kill || g.ending", "if n < 0 && g.ending", "TestFaults/.*/supervisor_stopped"},
	{"the guardian does not mind a dead supervisor", "guardian_linux.go",
		"g.end(supervisorDied)", "", "TestFaults/.*/supervisor_killed"},
	{"a silent guardian is not killed", "supervisor_linux.go",
		"v.silent = true\n\t\tv.killGuardian()", "v.silent = true", "TestFaults/.*/guardian_stopped"},
	{"signals reach the command alone", "command_linux.go",
		"unix.Kill(-c.pid, s)", "unix.Kill(c.pid, s)", "TestSignalsReachTheGroup"},
	{"a probe that is cancelled goes on", "guarded_linux.go",
		"v.owe(request{Probe: number})", "", "TestProbeEnds"},
	{"a probe outlives the stop of the command", "command_linux.go",
		"for pid := range c.probes {", "for pid := range map[int]int{} {", "TestProbeEnds"},
	{"an unguarded probe leaves its children", "plain.go",
		"killGroup(cmd); return nil }", "return cmd.Process.Kill() }", "TestProbeEnds/unguarded"},
	{"processes that were ended count as exited with the command", "supervisor_linux.go",
		"v.cause == Exited && v.waitAll", "false", "TestWhatEndsTheRest"},
	{"processes that died with the guardian count as exited with the command", "guarded_linux.go",
		"r.Cause == Exited && v.waitAll", "false", "TestWhatEndsTheRest"},
	{"a stopped init is left so", "wards_linux.go",
		"_ = unix.Kill(pid, unix.SIGCONT)", "", "TestStoppedInit"},
	{"a start passes no renewal on", "guarded_linux.go",
		"told = v.renewed(lease, told)", "_ = told", "TestSlowStart/.*/.*_renewed"},
	{"the guardian takes the first end of the lease", "guardian_linux.go",
		"deadline == 0 || g.supervisor.pending()", "deadline == 0", "TestSlowStart/.*/leadership-guardian_renewed"},
	{"a start goes on without a lease", "guarded_linux.go",
		"case err != nil:\n\t\tv.killNow()", "case err != nil:", "TestSlowStart/.*/.*_lost"},
	{"what the command leaves is not killed", "init_linux.go",
		"c.exited && !c.settings.WaitAll", "false", "TestWhatTheCommandLeaves"},
	{"a reset link ends at once", "wire_linux.go",
		"errors.Is(err, unix.ECONNRESET)", "false", "TestLastWordsAreHeard"},
	{"an init starts the command although its guardian is dead", "init_linux.go",
		"ok && r.Start && !guardian.ended()", "ok && r.Start", "TestInitOfADeadGuardian"},
	{"the guardian speaks of the init's failure first", "guardian_linux.go",
		"g.ward.kill() // the init, if it has been cloned",
		"g.report(report{Failed: err.Error()})", "TestWhyTheInitFailed"},
	{"a supervisor that was stopped reads no reports", "supervisor_linux.go",
		"v.doubted != v.kill || v.link.pending()", "false", "TestStoppedSupervisor"},
	{"a stop that finds no room is lost", "wire_linux.go",
		"errors.Is(o.link.send(o.left[0]), unix.EAGAIN)", "o.link.send(o.left[0]) == unix.ENOSYS", "TestStopIsNotLost"},
	{"an unguarded probe begins after the command", "plain.go",
		"if p.over() {\n\t\treturn 0, ErrEnded\n\t}\n\tbeside", "beside", "TestExitStatus/unguarded"},
}

func TestMutantsAreOfThisSource(t *testing.T) { mutants.Check(t, mistakes) }
