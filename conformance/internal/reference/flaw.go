// Package reference is a small store with switches, on a service within the process. Without a flaw it keeps the
// contract of package store and passes the conformance suite. With one it breaks one rule, as the author of a store
// might by mistake: the suite has to notice.
package reference

// Flaw is a way to break one rule of the contract.
type Flaw int

// The flaws, and the store without one. Flaws has what each of them is.
const (
	None Flaw = iota

	LeaseFromAnswer
	LeaseBeforeAnswer
	LeaseOfWholeTTL
	LeaseEndless
	LeaseOfTwoSessions
	DeadSessionRenewed
	LeaseOutlivesClose
	CloseForgetsCampaign

	TokenRestarts
	TokenOfClient
	TokenBeforeBallot
	AheadBeforeBallot

	NoNonce
	AbandonedCampaignStands
	AbandonedOneByOne
	AbandonedWithdrawalStands
	WithdrawUnproven
	WatchAfterList
	SessionOnce
	CloseLeavesSession
	LostNeverClosed
	AnswersCutOff
	OwnRemovalUnseen

	OrderOfNames
	GapPromotes
	OwnBallotsSkipped
	BallotShared

	AcknowledgedWhenFirst
	AcknowledgedBeforeFirst
	AcknowledgedWithoutBallot
	AcknowledgementOnce
	AcknowledgementOutlivesSession
	WithdrawLeavesAcknowledgement
	WithdrawTakesTheNext
	LeaderUnacknowledged
	LeaderBackInTime
	LeaderWatchedLate
	ValueAltered
	RevisionConstant

	WakesEverybody

	GoroutineOfBallot
	GoroutineOfClose
	CallsOutliveClose
	RetriesUnpaused
	GoroutineOfRefusal

	FreshBeforeNews
	FreshFromAnswer
	FreshNever
	FreshUntilAnOutage
	WorkedNever
	RemovalByName
	NamesMeet
	NamesUnchecked
	BallotsReversed
	BallotsOfOthersHidden
	CampaignIgnoresContext
	WaitIgnoresContext
	KnownReturnedAgain
	OutageIsAnError
	FirstThoughLost
	ErrUnmatched
	ErrWithoutClosed
	OutcomeDenied
	WithdrawOnce
	TTLOfDefault

	RequestUnseen
	RequestRemoves
	RequestToAll
)

// Description is what a store with a flaw does wrong.
type Description struct {
	Flaw    Flaw
	Promise string // the one of "G1" to "G7" that it breaks; empty if it is the contract of package store alone
	Does    string // the predicate of a sentence
}

// Flaws describes each flaw.
var Flaws = []Description{
	{LeaseFromAnswer, "G1", "counts the lease from when the answer to a renewal came"},
	{LeaseBeforeAnswer, "G1", "renews the lease when it sends a renewal, before the answer has come"},
	{LeaseOfWholeTTL, "G1", "takes no grace off the lease"},
	{LeaseEndless, "G1", "gives a lease that does not end"},
	{LeaseOfTwoSessions, "G1", "goes on with the same lease in the next session"},
	{DeadSessionRenewed, "G3", "takes the answer that a session does not exist for a confirmation"},
	{LeaseOutlivesClose, "G1", "lets go of the session in Close and does not end the lease"},
	{CloseForgetsCampaign, "G1", "ends in Close the ballots that it has, and forgets one that is being cast"},

	{TokenRestarts, "G2", "takes tokens from a counter of the election, which goes when its keys are removed"},
	{TokenOfClient, "G2", "takes tokens from a counter of its own"},
	{TokenBeforeBallot, "G1", "takes a token first, so that a ballot might become visible after others with higher tokens"},
	{AheadBeforeBallot, "G1", "reads which ballots are ahead before it casts its own"},

	{NoNonce, "G3", "casts another ballot if the reply to the first is lost"},
	{AbandonedCampaignStands, "G3", "leaves the ballot of a campaign that is given up"},
	{AbandonedOneByOne, "G3", "removes what campaigns that were given up have left one by one"},
	{AbandonedWithdrawalStands, "G3", "does not go on with a withdrawal whose context has ended"},
	{WithdrawUnproven, "G3", "reports that a ballot is withdrawn without an answer"},
	{WatchAfterList, "G3", "lists the ballots, then watches the one ahead, and does not look again"},
	{SessionOnce, "G3", "opens no second session"},
	{CloseLeavesSession, "G3", "leaves the session to expire in Close"},
	{LostNeverClosed, "G3", "never closes Lost"},
	{AnswersCutOff, "G3", "takes no answer to a renewal that comes later than a tenth of the TTL"},
	{OwnRemovalUnseen, "G3", "does not notice that its own ballot is removed"},

	{OrderOfNames, "G4", "orders ballots by name"},
	{GapPromotes, "G4", "takes itself for first when the ballot just ahead goes"},
	{OwnBallotsSkipped, "G4", "does not wait for ballots of its own session"},
	{BallotShared, "G4", "has one ballot in an election, however often it campaigns"},

	{AcknowledgedWhenFirst, "G5", "acknowledges as soon as a ballot is first"},
	{AcknowledgedBeforeFirst, "G5", "lets a ballot acknowledge that is not first"},
	{AcknowledgedWithoutBallot, "G5", "acknowledges without the condition that the ballot stands"},
	{AcknowledgementOnce, "G5", "refuses to acknowledge again"},
	{AcknowledgementOutlivesSession, "G5", "does not bind the acknowledgement to the session"},
	{WithdrawLeavesAcknowledgement, "G5", "withdraws the ballot and leaves its acknowledgement"},
	{WithdrawTakesTheNext, "G5", "removes whatever acknowledgement there is with a ballot"},
	{LeaderUnacknowledged, "G5", "shows the first in line as the leader before it has acknowledged"},
	{LeaderBackInTime, "G5", "reads the leader from a replica that is behind every second time"},
	{LeaderWatchedLate, "G5", "reads the leader, then watches, and does not look again"},
	{ValueAltered, "G5", "trims spaces from values"},
	{RevisionConstant, "G5", "gives each acknowledgement of a ballot the same revision"},

	{WakesEverybody, "G6", "watches all ballots while it waits"},

	{GoroutineOfBallot, "G7", "leaves a goroutine for each ballot"},
	{GoroutineOfClose, "G7", "leaves a goroutine after Close"},
	{CallsOutliveClose, "G7", "lets Wait and Observe go on after Close"},
	{RetriesUnpaused, "G7", "sends the next request at once when one fails"},
	{GoroutineOfRefusal, "G7", "leaves a goroutine for each request that fails"},

	{FreshBeforeNews, "", "advances AsOf by the answer to a renewal, and looks for news of the leader after that"},
	{FreshFromAnswer, "", "counts AsOf from when the answer came"},
	{FreshNever, "", "never advances AsOf"},
	{FreshUntilAnOutage, "", "does not advance AsOf any more once there was an outage"},
	{WorkedNever, "", "says that it has never worked"},
	{RemovalByName, "", "uses names again, and removes a ballot by its name alone"},
	{NamesMeet, "", "keeps ballots where those of an election with a longer name are"},
	{NamesUnchecked, "", "does not check names"},
	{BallotsReversed, "", "lists the last in line first"},
	{BallotsOfOthersHidden, "", "lists its own ballots alone"},
	{CampaignIgnoresContext, "", "goes on campaigning when the context has ended"},
	{WaitIgnoresContext, "", "goes on waiting when the context has ended"},
	{KnownReturnedAgain, "", "returns from Observe with what the caller knows"},
	{OutageIsAnError, "", "returns an error from Observe in an outage"},
	{FirstThoughLost, "", "returns nil from Wait for a ballot that was first and is lost"},
	{ErrUnmatched, "", "gives lost ballots an error of its own"},
	{ErrWithoutClosed, "", "does not say that a ballot is lost because the store is closed"},
	{OutcomeDenied, "", "reports a plain failure if the request might have been carried out"},
	{WithdrawOnce, "", "returns an error when a ballot is withdrawn again"},
	{TTLOfDefault, "", "tells another TTL than that of its session"},

	{RequestUnseen, "G3", "does not tell the owner of a ballot that an operator asks for its resignation"},
	{RequestRemoves, "G1", "removes a ballot when an operator asks for its owner's resignation"},
	{RequestToAll, "G4", "asks all to resign when an operator asks one"},
}
