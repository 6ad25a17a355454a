package guard

import "strings"

// Kind is how far a command is guarded.
type Kind string

const (
	// Namespace: the command runs in a PID namespace that dies with the guardian.
	Namespace Kind = "namespace"
	// Subreaper: the guardian and the supervisor kill the descendants of the command one by one.
	Subreaper Kind = "subreaper"
	// Unguarded: the command is a plain child. Only the supervisor ends it.
	Unguarded Kind = "unguarded"
)

// Mode is how a command is guarded on this machine.
type Mode struct {
	Kind Kind
	// UserNamespace says that the PID namespace needs a user namespace, since this process is not privileged.
	UserNamespace bool
	// Reasons says why no better mode was found.
	Reasons []string
	// Uncovered names the faults in which a process of the command can outlive the lease, a phrase each.
	Uncovered []string
	// Notes says what is different for the command.
	Notes []string
}

// UnguardedMode returns the mode that guards nothing and works on all systems.
func UnguardedMode() Mode {
	return Mode{Kind: Unguarded, Uncovered: []string{
		"the supervisor is killed: the command goes on",
		"the supervisor is stopped or frozen: the command goes on until the supervisor continues",
		"the command leaves a process behind: it goes on",
	}}
}

func namespaceMode(user bool) Mode {
	m := Mode{Kind: Namespace, UserNamespace: user, Notes: []string{
		"the command has other process ids inside its PID namespace than outside: pid files are of no use outside",
	}}
	if user {
		m.Notes = append(m.Notes,
			"files of other users show as owned by nobody, and the command can't become another user (sudo, su)")
	}
	return m
}

func subreaperMode(reasons ...string) Mode {
	return Mode{Kind: Subreaper, Reasons: reasons, Uncovered: []string{
		"supervisor and guardian are killed together: descendants of the command go on",
		"supervisor and guardian are stopped or frozen together: descendants of the command go on until the supervisor continues",
		"all processes are stopped or frozen and continue after the lease: descendants of the command may run until the supervisor has killed them, from a millisecond on",
		"the supervisor is killed, stopped or frozen, and a CPU quota or a busy machine leaves the guardian no time to kill: descendants of the command go on",
		"the command becomes another user (sudo, su, setuid programs): it can't be killed",
	}}
}

// unsupportedError says why no guarded mode works.
type unsupportedError struct{ reasons []string }

func (e *unsupportedError) Error() string {
	return "this system can't end a command with its lease (" + strings.Join(e.reasons, "; ") + ")"
}
