package conformance_test

import "github.com/go-leadership/leadership/conformance/internal/reference"

// caught are the cases that a store with a flaw fails each time, and those that it fails if one of two goroutines is
// first.
var caught = map[reference.Flaw]struct{ by, may []string }{
	reference.LeaseFromAnswer: {
		by: []string{"lease-counts-from-the-request"},
	},
	reference.LeaseBeforeAnswer: {
		by: []string{"confirmed-is-not-ahead-of-the-news", "lease-counts-from-the-request"},
	},
	reference.LeaseOfWholeTTL: {
		by: []string{"lease-leaves-a-grace"},
	},
	reference.LeaseEndless: {
		by: []string{
			"cut-off-leader-stops-first", "first-answer-after-a-pause", "hanging-call-holds-nothing-up",
			"late-confirmation-revives-nothing", "lease-counts-from-the-request", "lease-leaves-a-grace",
			"outage-longer-than-the-session", "slow-head-gives-way", "winners-and-losers-callbacks",
		},
	},
	reference.LeaseOfTwoSessions: {
		by:  []string{"close-against-a-campaign"},
		may: []string{"close-under-a-candidate"},
	},
	reference.DeadSessionRenewed: {
		by: []string{"alone-after-a-partition", "crash-is-taken-over", "outage-longer-than-the-session"},
	},
	reference.LeaseOutlivesClose: {
		by:  []string{"close-against-a-campaign"},
		may: []string{"close-under-a-candidate"},
	},
	reference.CloseForgetsCampaign: {
		by:  []string{"close-against-a-campaign"},
		may: []string{"close-under-a-candidate"},
	},
	reference.TokenRestarts: {
		by: []string{"removed-leader-steps-down", "tokens-grow-over-removal"},
	},
	reference.TokenOfClient: {
		by: []string{"tokens-are-listed", "tokens-grow-over-crashes", "tokens-grow-over-resignations"},
	},
	reference.NoNonce: {
		by: []string{"lost-reply-makes-one-ballot"},
	},
	reference.AbandonedCampaignStands: {
		by:  []string{"abandoned-campaign-leaves-no-ballot"},
		may: []string{"stop-leaves-nothing"},
	},
	reference.AbandonedWithdrawalStands: {
		by: []string{"abandoned-withdrawal-goes-on"},
	},
	reference.WithdrawUnproven: {
		by: []string{
			"abandoned-withdrawal-goes-on", "calls-end-with-their-context", "repeated-withdrawal-spares-the-next-ballot",
		},
	},
	reference.WatchAfterList: {
		by:  []string{"changes-at-any-moment"},
		may: []string{"abandoned-campaign-leaves-no-ballot", "slow-line"},
	},
	reference.SessionOnce: {
		by: []string{"alone-after-a-partition", "crash-is-taken-over", "outage-longer-than-the-session"},
	},
	reference.CloseLeavesSession: {
		by:  []string{"close-ends-the-session"},
		may: []string{"close-against-a-campaign"},
	},
	reference.LostNeverClosed: {
		by: []string{"removed-leader-steps-down", "removed-waiters-stand-again", "step-by-step"},
	},
	reference.AnswersCutOff: {
		by: []string{"long-round-trips"},
	},
	reference.OwnRemovalUnseen: {
		by: []string{"removed-leader-steps-down", "removed-waiters-stand-again"},
	},
	reference.OrderOfNames: {
		by: []string{
			"a-change-wakes-one", "a-gap-promotes-nobody", "abandoned-withdrawal-goes-on",
			"calls-end-with-their-context", "close-leaves-nothing", "cut-off-leader-stops-first",
			"failed-takeover-is-never-acknowledged", "first-answer-after-a-pause", "leads-in-the-order-of-ballots",
			"lease-counts-from-the-request", "only-the-first-acknowledges", "outage-longer-than-the-session",
			"removed-waiters-stand-again", "renewal-keeps-others-out", "second-ballot-of-the-same-store",
			"tokens-are-listed", "told-after-the-acknowledgement", "who-leaves-goes-to-the-back",
			"winners-and-losers-callbacks",
		},
	},
	reference.GapPromotes: {
		by: []string{
			"a-gap-promotes-nobody", "calls-end-with-their-context", "second-ballot-of-the-same-store",
		},
		may: []string{"close-leaves-nothing"},
	},
	reference.OwnBallotsSkipped: {
		by:  []string{"close-leaves-nothing", "second-ballot-of-the-same-store"},
		may: []string{"a-gap-promotes-nobody"},
	},
	reference.BallotShared: {
		by: []string{
			"a-gap-promotes-nobody", "close-leaves-nothing", "leads-in-the-order-of-ballots",
			"second-ballot-of-the-same-store",
		},
	},
	reference.AcknowledgedWhenFirst: {
		by: []string{
			"changes-at-any-moment", "failed-takeover-is-never-acknowledged", "told-after-the-acknowledgement",
		},
		may: []string{"followers-see-every-leader", "winners-and-losers-callbacks"},
	},
	reference.AcknowledgedBeforeFirst: {
		by: []string{"only-the-first-acknowledges", "second-ballot-of-the-same-store"},
	},
	reference.AcknowledgedWithoutBallot: {
		by: []string{"late-acknowledgement-changes-nothing"},
	},
	reference.AcknowledgementOnce: {
		by: []string{
			"confirmed-is-not-ahead-of-the-news", "leader-never-goes-back", "lost-reply-to-an-acknowledgement",
			"step-by-step", "values-are-bytes",
		},
	},
	reference.AcknowledgementOutlivesSession: {
		by: []string{
			"acknowledgement-goes-with-the-ballot", "close-leaves-nothing", "followers-see-every-leader",
		},
	},
	reference.WithdrawLeavesAcknowledgement: {
		by: []string{
			"acknowledgement-goes-with-the-ballot", "changes-at-any-moment", "followers-see-every-leader",
			"stop-leaves-nothing",
		},
	},
	reference.WithdrawTakesTheNext: {
		by: []string{"repeated-withdrawal-spares-the-next-ballot"},
	},
	reference.LeaderUnacknowledged: {
		by: []string{
			"changes-at-any-moment", "failed-takeover-is-never-acknowledged", "followers-see-every-leader",
			"told-after-the-acknowledgement",
		},
		may: []string{"winners-and-losers-callbacks"},
	},
	reference.LeaderBackInTime: {
		by: []string{"elections-never-meet", "leader-never-goes-back"},
	},
	reference.LeaderWatchedLate: {
		by:  []string{"changes-at-any-moment", "confirmed-is-not-ahead-of-the-news"},
		may: []string{"events-and-values-in-order", "followers-see-every-leader"},
	},
	reference.ValueAltered: {
		by: []string{"values-are-bytes"},
	},
	reference.RevisionConstant: {
		by: []string{"leader-never-goes-back", "step-by-step"},
	},
	reference.WakesEverybody: {
		by: []string{"a-change-wakes-one"},
	},
	reference.GoroutineOfBallot: {
		by: []string{"close-leaves-nothing", "many-starts-and-stops", "stop-leaves-nothing"},
	},
	reference.GoroutineOfClose: {
		by: []string{"close-leaves-nothing"},
	},
	reference.CallsOutliveClose: {
		by: []string{"close-leaves-nothing"},
	},
	reference.FreshBeforeNews: {
		by: []string{"confirmed-is-not-ahead-of-the-news"},
	},
	reference.FreshFromAnswer: {
		by: []string{"confirmed-is-not-ahead-of-the-news"},
	},
	reference.FreshNever: {
		by: []string{
			"confirmed-is-not-ahead-of-the-news", "late-confirmation-revives-nothing", "step-by-step",
		},
	},
	reference.RemovalByName: {
		by: []string{"repeated-withdrawal-spares-the-next-ballot"},
	},
	reference.NamesMeet: {
		by: []string{"elections-never-meet"},
	},
	reference.NamesUnchecked: {
		by: []string{"close-leaves-nothing", "refuses-bad-names-and-values"},
	},
	reference.BallotsReversed: {
		by: []string{"tokens-are-listed"},
	},
	reference.BallotsOfOthersHidden: {
		by: []string{
			"a-gap-promotes-nobody", "abandoned-campaign-leaves-no-ballot", "crash-is-taken-over",
			"events-and-values-in-order", "lost-reply-makes-one-ballot", "outage-longer-than-the-session",
			"removed-waiters-stand-again", "replies-lost-for-long", "repeated-withdrawal-spares-the-next-ballot", "tokens-are-listed",
		},
	},
	reference.CampaignIgnoresContext: {
		by:  []string{"abandoned-campaign-leaves-no-ballot", "calls-end-with-their-context"},
		may: []string{"stop-leaves-nothing"},
	},
	reference.WaitIgnoresContext: {
		by: []string{
			"calls-end-with-their-context", "second-ballot-of-the-same-store", "stop-leaves-nothing",
		},
	},
	reference.LeaderReturnsAtOnce: {
		by: []string{"calls-end-with-their-context", "changes-at-any-moment", "close-leaves-nothing"},
	},
	reference.OutageIsAnError: {
		by: []string{"calls-end-with-their-context"},
	},
	reference.FirstThoughLost: {
		by:  []string{"step-by-step"},
		may: []string{"close-against-a-campaign"},
	},
	reference.ErrUnmatched: {
		by: []string{"close-is-why-terms-end", "only-the-first-acknowledges", "step-by-step"},
	},
	reference.ErrWithoutClosed: {
		by: []string{"close-is-why-terms-end"},
	},
	reference.OutcomeDenied: {
		by: []string{"lost-reply-to-an-acknowledgement"},
	},
	reference.WithdrawOnce: {
		by: []string{"repeated-withdrawal-spares-the-next-ballot", "step-by-step"},
	},
	reference.TTLOfDefault: {
		by: []string{"step-by-step"},
	},
}
