package engine

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/mutants"
)

// mistakes are changes of rules that no swapped operator or dropped statement breaks in the right place, each with the test
// that must fail then. TestMutants makes them, if the package is built with the tag mutants. Package mutate, in tools,
// changes the rest of the engine.
var mistakes = []mutants.Mutant{
	{"a session whose end has failed is not dropped", "session.go",
		"defer s.handBack()", "defer func() {\n\t\tif _, left := s.state(); left == nil {\n\t\t\ts.handBack()\n\t\t}\n\t}()",
		"TestLifelineKnowsAllSessions"},
	{"a session that the service has ended is not dropped", "session.go",
		"s.handBack()\n\t\treturn", "return", "TestLifelineForgetsASessionThatHasEnded"},
	{"a session is dropped while the leader's work winds down", "session.go",
		"s.engine.keeper.Go(func() { s.await(work); s.end() })", "s.handBack()\n\ts.engine.keeper.Go(func() { s.await(work); s.end() })",
		"TestLifelineKnowsAllSessions"},
	{"a removal that is refused ends the terms of its session", "refused.go",
		"case len(s.work()) == 0:", "case true:", "TestRefusedRemovalCostsNoTerm"},
	{"a removal that is refused blocks the queue for good", "refused.go",
		"case len(s.work()) == 0:", "case false:", "TestRefusedRemovalCostsNoTerm"},
	{"ballots that can't be removed pile up", "claim.go",
		"if r.refusal != nil {", "if false {", "TestRefusedRemovalCostsNoTerm"},
	{"an attempt that might have been carried out is forgotten", "errors.go",
		"if err == nil || !errors.Is(earlier", "if true || !errors.Is(earlier", "TestWithdrawGoesOnInTheBackground"},
	{"a read that news have overtaken counts", "observe.go",
		"return overtaken && 0 <", "return false && overtaken && 0 <", "TestReadThatIsOvertakenByNews"},
	{"a renewed mark counts on", "silence.go", "!s.told || mark != s.mark", "!s.told", "TestProvenSilenceAddsUp"},
	{"what peers have proved does not count", "silence.go", "if due.Before(s.due) {", "if false {", "TestSilence$"},
	{"more is proved than was seen", "silence.go", "left = s.Left(now)", "left = s.Left(now) / 2", "TestProvenSilenceAddsUp"},
	{"nothing is proved", "peers.go", "d.prove(p)", "_ = 0", "TestProofs"},
	{"a proof without an answer holds up the end", "peers.go", "context.WithTimeout(d.ctx, left)", "context.WithTimeout(d.ctx, 2*p.TTL)", "TestProofs"},
	{"a lifeline gives no file for the session", "lifeline.go",
		"return line.File()", "return nil, nil", "TestLifelineGivesTheSessionFile"},
}

func TestMutantsAreOfThisSource(t *testing.T) { mutants.Check(t, mistakes) }
