package file

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/mutants"
)

// mistakes are changes of one line, each with the test that must fail then. TestMutants makes them, if the package is
// built with the tag mutants.
var mistakes = []mutants.Mutant{
	{"no second look at the floor", "number_linux.go",
		"number <= f.floor, nil", "number == 0, nil", "TestLateTicketIsVoid"},
	{"a new directory is not durable", "number_linux.go",
		"n.durable.Store(0) //", "_ = 0 //", "TestNewDirectoryIsDurable"},
	{"the nonce of the first is not told", "standing_linux.go",
		"first.Session, first.Nonce, _ =", "first.Session, _, _ =", "TestFirst$"},
	{"the first is not the first", "standing_linux.go",
		"first.Nonce, _ = splitBallot(name)\n\t\t\treturn false, nil", "first.Nonce, _ = splitBallot(name)\n\t\t\treturn true, nil", "TestFirst$"},
	{"a lease of three TTLs", "session_linux.go",
		"Valid: d.config.TTL - d.config.Grace", "Valid: 3 * d.config.TTL", "TestFrozen$"},
	{"no end is durable", "number_linux.go",
		"err := n.secure(f.end); err", "err := error(nil); err", "TestEndIsRaised"},
	{"a session begins before its numbers are durable", "number_linux.go",
		"err = n.secure(f.end)", "err = nil", "TestOpenWhileAnEndIsMadeDurable"},
	{"the directory itself is not durable", "number_linux.go",
		`dir := d.floorDir(); dir != "/"; dir`, "dir := d.floorDir(); dir != path.Dir(d.root()); dir", "TestNewDirectoryIsDurable"},
	{"the version is not durable", "layout_linux.go",
		"return d.ops.sync(temporary)", "return nil", "TestPowerFailsAfterAKill"},
	{"a process begins at the highest floor", "number_linux.go",
		"n.raise(f, f.end)", "n.raise(f, f.floor)", "TestPowerFailsAtEachCall"},
	{"tickets are removed without a floor", "collect_linux.go",
		"_, err = d.numbers.raise(f, max(f.floor, slices.Max(numbers)))", "_, err = f.floor, error(nil)", "TestLateTicketIsVoid"},
	{"a removed queue does not raise the floor", "number_linux.go",
		"len(before) == 0 {", "false {", "TestPartsAreRemoved"},
	{"tokens begin at 1", "number_linux.go",
		"uint64(time.Now().UnixMicro())", "uint64(0*time.Now().Unix())", "TestNumbersBegin"},
	{"ballots are listed once", "standing_linux.go",
		"tickets, err := p.numbers(d, p.queue())\n\treturn", "tickets := first\n\treturn", "TestListingMissesATicket"},
	{"a free lock does not count", "session_linux.go",
		"case !free && now < deadline:", "case free && now < 0, now < deadline:", "TestKilledLeaderIsReplacedAtOnce"},
	{"the deadline does not count", "session_linux.go",
		"case !free && now < deadline:", "case !free && now > 0:", "TestReadOnlyFollower"},
	{"a session ends before its deadline", "session_linux.go",
		"case !free && now < deadline:", "case !free && now < deadline-d.config.TTL/2:", "TestDriver"},
	{"a session lives for longer than its TTL", "session_linux.go",
		"case !free && now < deadline:", "case !free && now < deadline+d.config.TTL/2:", "TestFrozenLeaderIsReplacedInTime"},
	{"the end of a process is not watched", "watch_linux.go",
		"syscall.IN_CLOSE_WRITE | syscall.IN_DELETE |", "syscall.IN_DELETE |", "TestKilledLeaderIsReplacedAtOnce"},
	{"one is ahead at most", "ballot_linux.go",
		"place.More = place.Nearest != \"\"", "place.More = place.Nearest == \"-\"", "TestFirst$"},
	{"each store has an inotify instance", "hub_linux.go",
		"if one == nil {", "if true {", "TestMoreProcessesThanInotifyInstances"},
	{"a lock is held while a directory is looked up", "hub_linux.go",
		"fd, err := h.find(dir)", "h.mu.Lock(); fd, err := h.find(dir); h.mu.Unlock()", "TestDiskHangs"},
	{"an event waits for changes of watches", "hub_linux.go",
		"h.mu.Lock()\n\tsubs :=", "h.changing.Lock(); h.changing.Unlock(); h.mu.Lock()\n\tsubs :=", "TestEventsGoOnBesideChanges"},
	{"each request reads the events itself", "hub_linux.go",
		"h.reads.Load() > begun {", "h.reads.Load() > begun+1e9 {", "TestRequestsShareARead"},
	{"the driver's lock is held while a session's directory is looked up", "watch_linux.go",
		"err := m.begun(); err", "err := func() error { d.mu.Lock(); defer d.mu.Unlock(); _, err := d.hub.find(d.sessionDir(id)); return err }(); err", "TestDiskHangs"},
	{"a session that has ended in a directory that was moved away counts", "watch_linux.go",
		"certain := d.present()", "certain := true", "TestMovedAwayIsNoHandOver"},
	{"a directory that is moved away is noticed by the next renewal", "session_linux.go",
		"w.moves(d.root(), ring)", "_ = ring", "TestMovedAwayAtOnce"},
	{"a renewal that has failed is tried again late", "session_linux.go",
		"wait = d.config.TTL / 20", "wait = d.config.TTL / 4", "TestRenewalIsTriedAgainSoon"},
	{"a session is renewed while a call hangs", "driver_linux.go",
		"err := d.asked.wait(ctx); err", "err := error(nil); err", "TestCallHangs"},
	{"failed acknowledgements leave their number", "leader_linux.go",
		"if number > 0 {", "if false {", "TestFailedAcknowledgementsLeaveNothing"},
}

func TestMutantsAreOfThisSource(t *testing.T) { mutants.Check(t, mistakes) }
