package memory

import (
	"context"
	"strings"
	"sync"

	"github.com/go-leadership/leadership/store"
)

var (
	servicesMu sync.Mutex
	services   = map[string]*Service{} // by the name in the URL; guarded by servicesMu
)

func init() { store.Register("memory", openURL) }

// openURL opens a store on the service that the process shares under the URL's name. It lives as long as the process.
func openURL(_ context.Context, u *store.URL) (store.Store, error) {
	config := &Config{}
	config.TTL, config.Grace = u.Session()
	if err := u.Check(); err != nil {
		return nil, err
	}
	if u.User != "" || u.Password != "" {
		return nil, &store.FieldError{Field: "memory URL", Reason: "it takes no user or password"}
	}
	servicesMu.Lock()
	defer servicesMu.Unlock()
	name := u.String()
	service, ok := services[name]
	if !ok {
		service = NewService()
		service.name = strings.TrimPrefix(name, "memory://")
		services[name] = service
	}
	return Open(service, config)
}
