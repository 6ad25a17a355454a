package bench

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

var consulService = &service{
	name: "consul",
	start: func(b *testing.B) string {
		return testserver.NewConsul(b, testserver.ConsulConfig{
			Extra: `limits { http_max_conns_per_client = 10000 }`, // all processes are at one address here
		}).Addrs()[0]
	},
	open: func(address string, ttl time.Duration, dial dialFunc) (store.Store, error) {
		return consul.Open(consul.Config{Addresses: []string{address}, TTL: ttl, Dial: dial})
	},
	talk: func(m *metered) conversation { return &consulTalk{metered: m} },
	connect: func(b *testing.B, address string, dial dialFunc) plain {
		return &consulPlain{client: consulConnect(b, address, dial)}
	},
	peer: peerKind{name: "api.Lock", new: newConsulPeer},
	crashes: []crash{
		{time.Second, 2500 * time.Millisecond},               // with a check
		{10 * time.Second, 2*10*time.Second + 1*time.Second}, // without
	},
}

func consulConnect(b *testing.B, address string, dial dialFunc) *api.Client {
	b.Helper()
	transport := &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 4}
	b.Cleanup(transport.CloseIdleConnections)
	client, err := api.NewClient(&api.Config{Address: address, HttpClient: &http.Client{Transport: transport}})
	require.NoError(b, err)
	return client
}

type consulPlain struct {
	client  *api.Client
	entries int
}

func (p *consulPlain) create(ctx context.Context, key, value string) error {
	_, err := p.client.KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, (&api.WriteOptions{}).WithContext(ctx))
	return err
}

func (p *consulPlain) delete(ctx context.Context, key string) error {
	_, err := p.client.KV().Delete(key, (&api.WriteOptions{}).WithContext(ctx))
	return err
}

// watch implements plain. The answer of a blocking query has the value.
func (p *consulPlain) watch(ctx context.Context, key string) (<-chan told, error) {
	before, meta, err := p.client.KV().Get(key, (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return nil, err
	}
	known := make(chan told, 1)
	go func() {
		index := meta.LastIndex
		for { // if the key does not exist, changes of other keys end the query too
			pair, meta, err := p.client.KV().Get(key, (&api.QueryOptions{WaitIndex: index}).WithContext(ctx))
			if err != nil || (pair == nil) != (before == nil) {
				t := told{at: time.Now(), err: err}
				if pair != nil {
					t.value = string(pair.Value)
				}
				known <- t
				return
			}
			index = meta.LastIndex
		}
	}()
	return known, nil
}

// enter implements plain.
func (p *consulPlain) enter(ctx context.Context) (string, error) {
	p.entries++
	key := "entry/" + strconv.Itoa(p.entries)
	ok, _, _, err := p.client.KV().Txn(api.KVTxnOps{
		{Verb: api.KVSet, Key: key}, {Verb: api.KVGetTree, Key: "entry/"},
	}, (&api.QueryOptions{}).WithContext(ctx))
	if err == nil && !ok {
		err = errors.New("the transaction was refused")
	}
	return key, err
}

type consulPeer struct{ *api.Lock }

// newConsulPeer opens one session for all locks: a lock that opens its own takes longer.
func newConsulPeer(b *testing.B, address string, dial dialFunc) peer {
	client := consulConnect(b, address, dial)
	session, _, err := client.Session().Create(&api.SessionEntry{TTL: "1h"}, nil)
	require.NoError(b, err)
	lock, err := client.LockOpts(&api.LockOptions{Key: "lock", Session: session})
	require.NoError(b, err)
	return consulPeer{lock}
}

func (p consulPeer) lock(ctx context.Context) error {
	held, err := p.Lock.Lock(ctx.Done())
	if err == nil && held == nil {
		err = context.Cause(ctx)
	}
	return err
}

func (p consulPeer) unlock(context.Context) error { return p.Unlock() }

// consulTalk reads HTTP/1.1 without pipelining: the first write after a read begins a request. A request with an index
// is a blocking query. It is answered when there is a change or, rarely, when its wait is over.
type consulTalk struct {
	*metered
	busy, blocking bool
}

// The number of the only request that is under way on a connection.
const consulRequest = 0

func (t *consulTalk) sent(p []byte) {
	if t.busy {
		return // the rest of a request
	}
	line, _, _ := bytes.Cut(p, []byte("\r\n"))
	t.busy, t.blocking = true, bytes.Contains(line, []byte("index="))
	if t.blocking {
		t.noted()
	} else {
		t.asked(consulRequest)
	}
}

func (t *consulTalk) received(p []byte) {
	switch {
	case len(p) == 0 || !t.busy:
		return
	case t.blocking:
		t.notified()
	default:
		t.answered(consulRequest)
	}
	t.busy = false
}
