package zookeeper

import "errors"

// errRestored is why a session is given up: a rival might lead with what the restored ensemble has.
var errRestored = errors.New("the ensemble was restored to an earlier state")

// compare is called when the first confirmation of a connection has been answered, before it proves anything. A confirmation
// is a transaction, so its zxid is higher than all earlier ones, unless the ensemble was restored to an
// earlier state. That state might have the session and lack its ballots, so the session is given up; it ends once the
// leaders' work has stopped. If others have written so much since the restore that the ensemble is past the known zxid,
// compare does not notice. Then the reads of the own ballots do: a new connection begins with them.
//
// On one connection the zxid never goes back. The caller holds the driver's mu.
func (l *link) compare() {
	d, zxid := l.driver, l.wire.first.Load()
	if zxid >= d.zxid {
		return
	}
	d.lifecycle.Warn(d.config.Logger, "the ensemble has gone back: was it restored?", "zxid before", d.zxid, "zxid", zxid)
	d.zxid = zxid
	if l.session.opened { // another one has no ballots
		l.session.leave(errRestored)
	}
}
