package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// save writes a row of the leader's data, if the leader's ballot stands.
func save(ctx context.Context, db *pgx.Conn, ballot store.Ballot, key, value string) error {
	stands, err := postgres.Fence(ballot)
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, stands.SQL, stands.Args...); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO data VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = $2", key, value)
		return err
	})
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == postgres.Gone {
		err = fmt.Errorf("%w: %w", leadership.ErrLost, err) // nothing was written
	}
	return err
}

// A leader writes to the database that elects it.
func ExampleFence() {
	st, err := postgres.Open(postgres.Config{Addresses: []string{"10.0.0.1:5432"}, User: "app", Database: "app"})
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	db, err := pgx.Connect(context.Background(), "postgres://app@10.0.0.1:5432/app") // the program's own
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close(context.Background())
	c, err := leadership.NewCandidate(st, "database/primary", "dbhost2:4567", nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Print(c.Run(context.Background(), func(ctx context.Context, term *leadership.Term) error {
		return save(ctx, db, term.Ballot(), "settings", "on dbhost2")
	}))
}
