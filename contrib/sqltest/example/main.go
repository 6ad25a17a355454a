// Example is a leader that writes to PostgreSQL or MariaDB under a fence. Start it twice, and stop the one that leads
// with SIGSTOP while it is in its transaction. The other takes over. After SIGCONT and a line of input, the first one's
// transaction is rolled back.
//
//	go run ./contrib/sqltest/example -store 'file:///dev/shm/example?ttl=2s' -driver pgx -source 'host=/run/postgresql dbname=test'
package main

import (
	"bufio"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/fence"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/file"
	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
)

const election = "example/writer"

func main() {
	url := flag.String("store", "file:///dev/shm/example?ttl=2s", "`URL` of the store")
	driver := flag.String("driver", "pgx", "pgx or mysql")
	source := flag.String("source", "", "the database, as the driver names it")
	flag.Parse()
	if err := run(context.Background(), *url, *driver, *source); err != nil {
		log.Fatal(err)
	}
}

// run stands for election, and ends after one term.
func run(ctx context.Context, url, driver, source string) error {
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	defer db.Close()
	dialect := map[string]fence.Dialect{"pgx": fence.PostgreSQL, "mysql": fence.MySQL}[driver]
	fences, err := fence.New(db, dialect, nil)
	if err != nil {
		return err
	}
	if err := fences.Create(ctx); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS journal (token bigint)"); err != nil {
		return err
	}
	st, err := store.Open(ctx, url, nil)
	if err != nil {
		return err
	}
	defer st.Close()
	c, err := leadership.NewCandidate(st, election, fmt.Sprint("process ", os.Getpid()), nil)
	if err != nil {
		return err
	}
	return c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
		defer c.Stop()
		lead(ctx, fences, term)
		return nil
	})
}

// lead writes a row, once a line of input has come.
func lead(ctx context.Context, fences *fence.Fence, term *leadership.Term) {
	leader, err := fences.Leader(ctx, term)
	if err != nil {
		fmt.Println("not raised:", err)
		return
	}
	if err := term.Acknowledge(ctx); err != nil {
		fmt.Println("not acknowledged:", err)
		return
	}
	// The context does not end with the term here, so that the fence alone refuses. A program would use the term's.
	ctx = context.WithoutCancel(ctx)
	err = fences.Tx(ctx, leader, nil, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO journal (token) VALUES (%d)", leader.Token())); err != nil {
			return err
		}
		fmt.Println("in the transaction")
		_, err := bufio.NewReader(os.Stdin).ReadString('\n')
		return err
	})
	if err != nil {
		fmt.Println("rolled back:", err)
		return
	}
	fmt.Println("committed")
}
