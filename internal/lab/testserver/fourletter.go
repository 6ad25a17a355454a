package testserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// role of a server is the mode in its answer to "srvr".
func (s *zooServer) role(ctx context.Context) (role, error) {
	answer, err := fourLetterWord(ctx, s.addr, "srvr")
	if err != nil {
		return unready, err
	}
	switch modeOf(answer) {
	case "leader", "standalone":
		return leader, nil
	case "":
		return unready, nil
	default:
		return follower, nil
	}
}

func modeOf(srvr string) string {
	for line := range strings.Lines(srvr) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode)
		}
	}
	return ""
}

// fourLetterWord sends the word to a server and returns the answer.
func fourLetterWord(ctx context.Context, addr, word string) (string, error) {
	answer, err := ask(ctx, addr, word)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("testserver: %s to %s: %w", word, addr, err)
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
