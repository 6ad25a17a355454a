package testserver

import (
	"context"
	"os/exec"
	"time"
)

// server is what one kind of server does in a way of its own.
type server interface {
	// command returns what runs the server in the foreground.
	command() *exec.Cmd
	// role asks the server for its role. An error means that it does not answer.
	role(ctx context.Context) (role, error)
}

// role is what a server that answers says of itself.
type role int

const (
	unready  role = iota // it serves no clients, for example because there is no leader
	follower             // it serves clients, by what another one decides
	leader               // it serves clients and leads, or is alone
)

// answerTimeout is how long a server that runs may take to answer. One that is starved takes seconds.
const answerTimeout = 5 * time.Second

func (m *Member) role(ctx context.Context) (role, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return m.server.role(ctx)
}
