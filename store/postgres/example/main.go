// Example is a leader that writes to the database that elects it, under postgres.Fence. Its role has to be allowed to
// create a schema and the table journal, as in the server of compose.yaml. Start it in two terminals. A line of input
// begins a transaction of the one that leads, and the next line, within a quarter of the TTL, commits it. Stop that
// process with SIGSTOP, between two transactions or in one. The other takes over. After SIGCONT and a line of input,
// the first one's write is refused.
//
//	go run ./store/postgres/example -store 'postgres://postgres@127.0.0.1:5432/postgres?ttl=20s'
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/jackc/pgx/v5"
)

func main() {
	url := flag.String("store", "postgres://postgres@127.0.0.1:5432/postgres?ttl=20s", "`URL` of the store, and of the data")
	flag.Parse()
	if err := run(context.Background(), *url); err != nil {
		log.Fatal(err)
	}
}

// run stands for election, and ends after one term.
func run(ctx context.Context, url string) error {
	source, _, _ := strings.Cut(url, "?") // pgx takes none of the store's options; a password is in the URL itself
	db, err := pgx.Connect(ctx, source)
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	st, err := store.Open(ctx, url, nil)
	if err != nil {
		return err
	}
	defer st.Close()
	c, err := leadership.NewCandidate(st, "example/writer", fmt.Sprint("process ", os.Getpid()), nil)
	if err != nil {
		return err
	}
	return c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
		defer c.Stop()
		if err := term.Acknowledge(ctx); err != nil {
			return err
		}
		fmt.Println("leads")
		// The context does not end with the term here, so that the fence alone refuses. A program would use the term's.
		lead(context.WithoutCancel(ctx), db, term)
		return nil
	})
}

// lead writes a row for each two lines of input, until a transaction fails.
func lead(ctx context.Context, db *pgx.Conn, term *leadership.Term) {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			stands, err := postgres.Fence(term.Ballot())
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, stands.SQL, stands.Args...); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "CREATE TABLE IF NOT EXISTS journal (line serial, token bigint)"); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "INSERT INTO journal (token) VALUES ($1)", int64(term.Token())); err != nil {
				return err
			}
			fmt.Println("in the transaction")
			in.Scan()
			return nil
		})
		if err != nil {
			fmt.Println("failed:", err)
			return
		}
		fmt.Println("committed")
	}
}
