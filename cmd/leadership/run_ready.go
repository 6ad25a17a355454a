package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"
)

// How often readiness is asked for, and how long one question may take.
const (
	readyInterval = 500 * time.Millisecond
	readyPatience = 5 * time.Second
)

// readiness is how to find out that the command has taken over. The zero readiness takes it for ready at once.
type readiness struct {
	exec    string // a command line of the shell, which succeeds
	url     string // a URL that is answered with 2xx
	fd      bool   // the command writes to a descriptor
	timeout time.Duration
}

// flagged reports whether a flag says when the command has taken over.
func (r readiness) flagged() bool { return r.fd || r.exec != "" || r.url != "" }

// readySignal is a pipe by which the command says that it is ready. The nil readySignal is none.
type readySignal struct{ read, write *os.File }

// begin prepares for a command that is about to be started.
func (r readiness) begin() (*readySignal, error) {
	if !r.fd {
		return nil, nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("--ready-fd: %w", err)
	}
	return &readySignal{read, write}, nil
}

// files are for the command: the first gets descriptor 3.
func (s *readySignal) files() []*os.File {
	if s == nil {
		return nil
	}
	return []*os.File{s.write}
}

func (s *readySignal) env() []string {
	if s == nil {
		return nil
	}
	return []string{"LEADERSHIP_READY_FD=3"}
}

// started leaves the pipe's end to the command.
func (s *readySignal) started() {
	if s != nil {
		s.write.Close()
	}
}

func (s *readySignal) close() {
	if s != nil {
		s.read.Close()
	}
}

// await waits until the command is ready, or until ctx ends.
func (r readiness) await(ctx context.Context, command process, signal *readySignal) error {
	var ready func(context.Context) error
	switch {
	case r.fd:
		ready = signal.await
	case r.exec != "":
		ready = repeated(func(ctx context.Context) error { return succeeds(ctx, command, r.exec) })
	case r.url != "":
		ready = repeated(func(ctx context.Context) error { return answers(ctx, r.url) })
	default:
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err := ready(waiting)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case waiting.Err() != nil:
		return fmt.Errorf("the command is not ready after %v: %w", r.timeout, err)
	}
	return err
}

// await waits until the command writes.
func (s *readySignal) await(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = s.read.SetReadDeadline(time.Unix(0, 0)) })()
	_, err := s.read.Read(make([]byte, 1))
	switch {
	case ctx.Err() != nil:
		return errors.New("nothing was written to LEADERSHIP_READY_FD")
	case errors.Is(err, io.EOF):
		sleep(ctx, readyPatience) // a command that has exited has closed it, too, and then its exit code counts
		return errors.New("the command has closed LEADERSHIP_READY_FD without writing to it")
	}
	return err
}

// repeated asks again and again until there is no error. When ctx ends it returns the last error, except that of the
// question which ctx has cut short.
func repeated(ask func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for last := error(nil); ; {
			asking, cancel := context.WithTimeout(ctx, readyPatience)
			err := ask(asking)
			cancel()
			if err == nil {
				return nil
			}
			if last == nil || ctx.Err() == nil {
				last = err
			}
			if !sleep(ctx, readyInterval) {
				return last
			}
		}
	}
}

// sleep reports whether d has passed before ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// succeeds runs a line of the shell, beside the command and guarded as the command is.
func succeeds(ctx context.Context, command process, line string) error {
	code, err := command.Run(ctx, []string{"/bin/sh", "-c", line})
	if err == nil && code != 0 {
		err = fmt.Errorf("it has ended with exit code %d", code)
	}
	if err != nil {
		return fmt.Errorf("--ready-exec: %w", err)
	}
	return nil
}

// answers asks a URL. Its errors show neither the query nor the password, which might be secret.
func answers(ctx context.Context, question string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, question, nil)
	if err != nil {
		return err
	}
	request.Close = true // no connection is kept
	where := *request.URL
	where.User, where.RawQuery, where.Fragment = nil, "", "" // they might be secret
	response, err := http.DefaultClient.Do(request)
	var failed *url.Error // its text has the query
	if errors.As(err, &failed) {
		err = failed.Err
	}
	if err != nil {
		return fmt.Errorf("%s: %w", &where, err)
	}
	response.Body.Close()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s answers %s", &where, response.Status)
	}
	return nil
}
