package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/jackc/pgx/v5/pgconn"
)

// errNoSchema says that nothing has been kept in the database yet.
var errNoSchema = errors.New("there is no schema yet")

// explain returns what an error of the server means for the request. interrupted is for errors after which it may have
// been carried out. https://www.postgresql.org/docs/current/errcodes-appendix.html lists the codes.
func (d *driver) explain(err *pgconn.PgError, interrupted error) error {
	switch err.Code {
	case "57014", "55P03", "40001", "40P01": // timed out, not locked, not serialised, deadlock: all rolled back
		return engine.Answered(fmt.Errorf("%w: %w", store.ErrUnavailable, err))
	case "57P03": // the server starts or stops
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case "3F000", "42883", "42P01": // within a function of the schema; see isMissing
		return engine.Answered(fmt.Errorf("%w: %w: let the owner of the schema run what leadership schema postgres prints",
			store.ErrUnavailable, err))
	case "28P01", "28000":
		return fmt.Errorf("%w: %w", store.ErrDenied, err)
	case "42501":
		return fmt.Errorf("%w: %w; what candidates and followers need is at the end of what leadership schema postgres prints",
			store.ErrDenied, err)
	case "3D000":
		return fmt.Errorf("%w: create the database, or name another one in the path of the URL", err)
	}
	switch err.Code[:min(2, len(err.Code))] {
	case "08", "57", "XX", "58": // the connection, the operator, an internal error, the disk
		return fmt.Errorf("%w: %w", interrupted, err)
	case "25", "53", "54": // a standby or timed out; no connections, disk or memory left; the queue of notifications is full
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

// unsent is the error of a request for which there was no connection.
func (d *driver) unsent(err error) error {
	var refused *pgconn.PgError
	var field *store.FieldError
	switch {
	case errors.As(err, &refused):
		if refused.Code == "28000" && d.config.TLS == nil && strings.Contains(refused.Message, "encryption") {
			return fmt.Errorf("%w: %w", store.ErrDenied, adapter.HintTLS(refused, "postgres", false))
		}
		return d.explain(refused, store.ErrUnavailable)
	case errors.As(err, &field):
		return field
	case errors.Is(err, errOldPrimary): // without what the client library says before it: the log has the first words
		return errOldPrimary
	case d.config.TLS != nil && strings.Contains(err.Error(), "refused TLS"):
		err = adapter.HintTLS(err, "postgres", true)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}
