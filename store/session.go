package store

import "time"

// The settings of a session that are given neither in a URL nor in the Config of a store.
const defaultTTL = 10 * time.Second

func defaultGrace(ttl time.Duration) time.Duration { return ttl / 3 }

// Session returns the options ttl and grace of a session, which every store has. Their defaults are those of
// [CheckSession]. Zero is refused, since it stands for the default in a store's Config.
func (u *URL) Session() (ttl, grace time.Duration) {
	ttl = u.Duration("ttl", defaultTTL)
	grace = u.Duration("grace", defaultGrace(ttl))
	for name, d := range map[string]time.Duration{"ttl": ttl, "grace": grace} {
		if _, given := u.options[name]; given && d == 0 && len(u.errs) == 0 {
			u.errs = append(u.errs, invalid(name, u.options[name], "a session needs one"))
		}
	}
	return ttl, grace
}

// CheckSession completes the settings of a session and reports, with a [FieldError], why they can't be used; nil if they
// can. They mean the same in every store:
//
//   - The TTL is how long the session lives without renewal: a multiple of unit, from least to most. Zero stands for 10 s.
//   - The grace is the time reserved for the leader's work to stop before a rival can lead. It is at least a twelfth of
//     the TTL, and less than half of it. Zero stands for a third of the TTL.
func CheckSession(ttl, grace *time.Duration, least, most, unit time.Duration) error {
	if *ttl == 0 {
		*ttl = defaultTTL
	}
	if *grace == 0 {
		*grace = defaultGrace(*ttl)
	}
	switch {
	case *ttl < least || *ttl > most || *ttl%unit != 0:
		return invalid("ttl", ttl.String(), "not a multiple of %v from %v to %v", unit, least, most)
	case *grace < *ttl/12 || *grace >= *ttl/2:
		return invalid("grace", grace.String(), "not from a twelfth to below half of the ttl %v", *ttl)
	}
	return nil
}
