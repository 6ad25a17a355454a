package testserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// RootPassword is the password of the user root if Auth is on.
func (e *Etcd) RootPassword() string { return rootPassword }

const rootPassword = "root-password"

// AddUser adds a user who may read and write the keys that begin with the
// prefix, which must not be empty, and nothing else. Auth must be on.
func (e *Etcd) AddUser(ctx context.Context, name, password, prefix string) error {
	if prefix == "" {
		return fmt.Errorf("testserver: user %s without a prefix", name)
	}
	return e.gateway(ctx, true,
		step{"user/add", map[string]any{"name": name, "password": password}},
		step{"role/add", map[string]any{"name": name}},
		step{"role/grant", map[string]any{"name": name, "perm": map[string]any{
			"permType":  "READWRITE",
			"key":       []byte(prefix),
			"range_end": prefixEnd(prefix),
		}}},
		step{"user/grant", map[string]any{"user": name, "role": name}},
	)
}

// prefixEnd returns the first key behind all that begin with the prefix.
func prefixEnd(prefix string) []byte {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return []byte{0} // etcd's sign for no end
}

func (e *Etcd) enableAuth(ctx context.Context) error {
	return e.gateway(ctx, false,
		step{"user/add", map[string]any{"name": "root", "password": rootPassword}},
		step{"user/grant", map[string]any{"user": "root", "role": "root"}},
		step{"enable", map[string]any{}},
	)
}

// step is a request of etcd's authentication API, by its path below /v3/auth.
type step struct {
	path string
	body map[string]any
}

// gateway makes the requests, in order, through the JSON gateway of the member that leads, as root if that is asked
// for.
func (e *Etcd) gateway(ctx context.Context, asRoot bool, steps ...step) error {
	for _, s := range steps {
		err := e.step(ctx, asRoot, s)
		for err != nil && strings.Contains(err.Error(), "invalid auth token") && ctx.Err() == nil {
			err = e.step(ctx, asRoot, s) // it expired between the two requests, and nothing was done
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *Etcd) step(ctx context.Context, asRoot bool, s step) error {
	token := ""
	if asRoot {
		var err error
		if token, err = e.authenticate(ctx); err != nil {
			return err
		}
	}
	_, err := e.request(ctx, token, s)
	return err
}

func (e *Etcd) request(ctx context.Context, token string, s step) ([]byte, error) {
	i, err := e.awaitLeader(ctx)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", token)
	}
	return e.caller.call(ctx, http.MethodPost, e.Member(i).Addr(), "/v3/auth/"+s.path, header, s.body)
}

// authenticate returns a token for root.
func (e *Etcd) authenticate(ctx context.Context) (string, error) {
	answer, err := e.request(ctx, "", step{"authenticate", map[string]any{"name": "root", "password": rootPassword}})
	if err != nil {
		return "", err
	}
	var decoded struct{ Token string }
	if err := json.Unmarshal(answer, &decoded); err != nil {
		return "", fmt.Errorf("testserver: etcd's answer to authenticate: %w", err)
	}
	return decoded.Token, nil
}
