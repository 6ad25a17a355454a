// Package memory holds elections within one process. It is complete (sessions with a TTL, expiry,
// fencing tokens, acknowledgement), it runs in the virtual time of testing/synctest, and its [Faults] make the line
// between a store and its service fail on demand.
//
//	service := memory.NewService()
//	st, err := memory.Open(service, nil)
//
// or, with a service that all of the process shares under a name, store.Open(ctx, "memory://name?ttl=10s", nil).
//
// To test a program of one's own in virtual time, give each process that the test plays a store of its own:
//
//	synctest.Test(t, func(t *testing.T) {
//		service := memory.NewService()
//		a, err := memory.Open(service, nil) // hand it to the first process
//		b, err := memory.Open(service, nil) // hand it to the second
//		...
//		a.Faults().Cut()             // the first loses its connection
//		time.Sleep(10 * time.Second) // takes no time: its lease ends, then its session, and the second leads
//		synctest.Wait()
//		...
//	})
//
// Close all stores before the function returns. Stores inside and outside a bubble can't share a service.
// examples/singleton and package redirect have such tests.
//
// A crashed leader is replaced at most one TTL after its last renewal.
package memory

import (
	"log/slog"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/memory"
)

// Service is a coordination service within this process, like the servers of the other stores. The stores opened on one
// service see the same elections. Its zero value is ready to use.
type Service struct{ service memory.Service }

// NewService returns a service of its own that nothing else in the process shares.
func NewService() *Service { return &Service{} }

// Clear removes everything that the service keeps of an election, as an operator might: ballots and acknowledgement; of
// all elections if the name is empty. Tokens go on growing. The last in line is removed first, so that no ballot
// becomes first meanwhile.
func (s *Service) Clear(election string) { s.service.Clear(election) }

// Delete removes a ballot, as an operator might, if it stands.
func (s *Service) Delete(election string, token uint64) { s.service.Delete(election, token) }

// Config are the settings of a store. The zero value of each field stands for its default.
type Config struct {
	TTL    time.Duration // how long the session lives without renewal, from 1 ms to 24 h. Default: 10 s
	Grace  time.Duration // time reserved before expiry for the leader's work to stop. Default: a third of the TTL
	Logger *slog.Logger  // that of store.Options

	Renewed func(latency time.Duration) // that of store.Options
}

// Store is one session on a [Service], made by [Open]. It implements store.Store.
type Store struct {
	*inner
	faults Faults
}

type inner = memory.Store

// Open opens a store on the service. It returns at once; the session opens at the first Cast.
func Open(service *Service, config *Config) (*Store, error) {
	if service == nil {
		return nil, adapter.Refuse("service", "", "it is nil")
	}
	var c memory.Config
	if config != nil {
		c = memory.Config{TTL: config.TTL, Grace: config.Grace, Logger: config.Logger, Renewed: config.Renewed}
	}
	return open(&service.service, &c)
}

func open(service *memory.Service, config *memory.Config) (*Store, error) {
	st, err := memory.Open(service, config)
	if err != nil {
		return nil, err
	}
	return &Store{st, Faults{st.Faults()}}, nil
}

// Faults returns the switches on the line between this store and its service.
func (s *Store) Faults() *Faults { return &s.faults }
