package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// manager is the service manager that expects messages, see sd_notify(3). The zero manager is none.
type manager struct {
	socket   string        // NOTIFY_SOCKET
	watchdog time.Duration // the manager ends a service that has been silent for so long; 0: it does not
	patience time.Duration // how long it may take to read a message
}

// managerOf reads the environment that systemd sets.
func managerOf(getenv func(string) string) manager {
	m := manager{socket: getenv("NOTIFY_SOCKET"), patience: time.Second}
	if pid := getenv("WATCHDOG_PID"); pid == "" || pid == strconv.Itoa(os.Getpid()) {
		if us, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64); err == nil && us > 0 {
			m.watchdog = time.Duration(us) * time.Microsecond
		}
	}
	return m
}

// managerVariables are not passed on: the command is not the service.
var managerVariables = []string{"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"}

// tell sends one message, if there is a manager. Errors are ignored: a manager that misses messages acts by itself.
func (m manager) tell(format string, args ...any) {
	if m.socket == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(m.patience))
	_, _ = fmt.Fprintf(conn, format, args...)
}

// pulse ticks when the manager is to be told that the service is alive: twice in the time that the manager waits.
func (m manager) pulse() (ticks <-chan time.Time, stop func()) {
	if m.socket == "" || m.watchdog == 0 {
		return nil, func() {}
	}
	ticker := time.NewTicker(m.watchdog / 2)
	return ticker.C, ticker.Stop
}
