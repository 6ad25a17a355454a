package redirect_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/redirect"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/all"
)

// A service on many machines. Clients may ask any of them, with curl -L for example.
func ExampleNew() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	st, err := store.Open(ctx, "etcd://10.0.0.1:2379/?ttl=10s", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	c, err := leadership.NewCandidate(st, "service", "http://10.0.0.7:8080", nil) // the URL of this machine
	if err != nil {
		log.Fatal(err)
	}
	f, err := leadership.NewFollower(st, "service", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Stop()
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		term, leads := c.Term()
		if !leads {
			return // r.Context() has ended
		}
		fmt.Fprintln(w, "what this writes to gets the token", term.Token())
	})
	h, err := redirect.New(c, f, app)
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", ":8080")
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: h}
	go server.Serve(l)
	defer server.Close()
	err = c.Run(ctx, leadership.Lead)
	log.Print(err)
}
