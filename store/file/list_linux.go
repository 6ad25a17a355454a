package file

import (
	"context"
	"errors"
	"slices"
	"syscall"
)

// Elections implements engine.Driver. It lists each directory below e. A directory with ballots in it is an election;
// it stays when the ballots have gone.
func (d *driver) Elections(ctx context.Context) ([]string, error) {
	return ask(ctx, d, func() ([]string, error) { return d.electionsBelow("") })
}

// electionsBelow returns the elections whose names begin with a prefix, which is empty or ends with "/".
func (d *driver) electionsBelow(prefix string) (elections []string, err error) {
	names, err := d.ops.list(string(d.dirOf(prefix)))
	if missing(err) || errors.Is(err, syscall.ENOTDIR) { // it has gone meanwhile, or is a file of another program
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if name[0] == '_' {
			continue
		}
		below, err := d.electionsBelow(prefix + name + "/")
		if err != nil {
			return nil, err
		}
		elections = append(elections, below...)
	}
	if prefix != "" && slices.Contains(names, "_b") {
		elections = append(elections, prefix[:len(prefix)-1])
	}
	return elections, nil
}
