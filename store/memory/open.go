package memory

import (
	"context"
	"strings"
	"sync"

	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
)

var (
	servicesMu sync.Mutex
	services   = map[string]*memory.Service{} // by the name in the URL; guarded by servicesMu
)

func init() { store.Register("memory", openURL) }

// openURL opens a store on the service that the process shares under the URL's name. It lives as long as the process.
func openURL(_ context.Context, u *store.URL) (store.Store, error) {
	config := &memory.Config{}
	if err := config.Settings().Read(u); err != nil {
		return nil, err
	}
	servicesMu.Lock()
	defer servicesMu.Unlock()
	name := u.String()
	service, ok := services[name]
	if !ok {
		service = &memory.Service{Name: strings.TrimPrefix(name, "memory://")}
		services[name] = service
	}
	return open(service, config)
}
