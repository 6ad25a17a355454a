package testserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// The modes that matter here. A follower's is "follower".
const (
	modeLeader     = "leader"
	modeStandalone = "standalone"
)

// answerTimeout is how long a server that runs may take to answer.
const answerTimeout = time.Second

// Command sends a four-letter word such as "srvr", "mntr" or "dump" and
// returns the answer. It blocks until the answer is complete or ctx ends; a
// paused member never answers.
func (m *Member) Command(ctx context.Context, word string) (string, error) {
	answer, err := ask(ctx, m.addr, word)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("testserver: %s to %s: %w", word, m.addr, err)
	}
	return answer, nil
}

func ask(ctx context.Context, addr, word string) (string, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// mode returns in which mode the member serves, or nothing if it does not.
func (m *Member) mode(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	answer, err := m.Command(ctx, "srvr")
	if err != nil {
		return ""
	}
	return modeOf(answer)
}

func modeOf(srvr string) string {
	for line := range strings.Lines(srvr) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode)
		}
	}
	return ""
}
