package postgres

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
)

const (
	void  = 2278
	text  = pgtype.TextOID
	int8_ = pgtype.Int8OID
	bool_ = pgtype.BoolOID
	bytea = pgtype.ByteaOID
)

var returns = map[string][]uint32{
	"open": {void}, "close": {void}, "remove": {void}, "ask": {void}, "clear": {void}, "void": {text}, "expire": {bool_}, "prove": {void},
	"renew": {text, int8_, int8_}, "enter": {text, int8_, int8_, bool_, text, int8_, int8_}, "ahead": {bool_, int8_, bool_},
	"acknowledge": {text, int8_}, "queue": {int8_, text, text, bytea, bool_, int8_, int8_}, "elections": {text},
	"standing": {int8_, text, text, bytea, bool_, int8_, int8_, int8_},
	"look":     {int8_, text, text, text, bool_, bytea, int8_, int8_, int8_},
}

var defaults = map[string]func(args []string) []any{
	"open": one(""), "close": one(""), "remove": one(""), "ask": one(""), "clear": one(""), "void": one("done"), "expire": one(true), "prove": one(""),
	"renew": func(args []string) []any { return []any{args[0], int64(1), int64(1000)} },
	"enter": one("stands", int64(1), nil, nil, nil, nil, nil), "ahead": one(true, nil, false), "acknowledge": one("done", int64(2)),
}

func one(row ...any) func([]string) []any { return func([]string) []any { return row } }

func (f *fakeServer) serve(c *fakeConn) {
	defer f.set(func() { f.end(c) })
	backend := pgproto3.NewBackend(c, c)
	first, err := backend.ReceiveStartupMessage()
	if _, ok := first.(*pgproto3.CancelRequest); ok {
		f.set(func() { f.cancels++ })
	}
	if _, ok := first.(*pgproto3.StartupMessage); err != nil || !ok {
		return
	}
	f.set(func() {
		if !f.conns[c] {
			return
		}
		if code := f.refuses[c.address]; code != "" {
			c.send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: "made by the test"})
			return
		}
		c.send(&pgproto3.AuthenticationOk{}, &pgproto3.ParameterStatus{Name: "server_version", Value: "15.1"},
			&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"}, &pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"},
			&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{1, 2, 3, 4}}, ready)
	})
	for {
		m, err := backend.Receive()
		if err != nil {
			return
		}
		f.mu.Lock()
		if f.conns[c] && !f.stuck[c.address] {
			f.handle(c, m)
		}
		f.mu.Unlock()
	}
}

var (
	ready    = &pgproto3.ReadyForQuery{TxStatus: 'I'}
	done     = &pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")}
	function = regexp.MustCompile(`FROM leadership\.(\w+)\(`)
	payload  = regexp.MustCompile(`pg_notify\('leadership', '(.*)'\)`)
)

// handle answers a message. The caller holds mu.
func (f *fakeServer) handle(c *fakeConn, m pgproto3.FrontendMessage) {
	switch m := m.(type) {
	case *pgproto3.Query:
		f.query(c, m.String)
	case *pgproto3.Parse:
		c.sql[m.Name] = m.Query
		c.send(&pgproto3.ParseComplete{})
	case *pgproto3.Bind:
		c.portal, c.args, c.formats = c.sql[m.PreparedStatement], nil, append([]int16{}, m.ResultFormatCodes...)
		for _, p := range m.Parameters {
			c.args = append(c.args, string(p))
		}
		c.send(&pgproto3.BindComplete{})
	case *pgproto3.Describe:
		sql := c.portal
		if m.ObjectType == 'S' {
			sql = c.sql[m.Name]
			c.send(&pgproto3.ParameterDescription{ParameterOIDs: []uint32{pgtype.Int8ArrayOID, pgtype.TextArrayOID, pgtype.Int8ArrayOID}})
		}
		d := &pgproto3.RowDescription{}
		for i, oid := range returns[nameOf(sql)] {
			d.Fields = append(d.Fields, pgproto3.FieldDescription{Name: []byte("c" + strconv.Itoa(i)), DataTypeOID: oid, Format: c.format(i)})
		}
		c.send(d)
	case *pgproto3.Execute:
		f.execute(c, nameOf(c.portal))
	case *pgproto3.Sync:
		if !c.hangs {
			c.send(ready)
		}
	case *pgproto3.Terminate:
		f.end(c)
	}
}

func (c *fakeConn) format(i int) int16 {
	if len(c.formats) == 0 {
		return 0
	}
	return c.formats[min(i, len(c.formats)-1)]
}

func nameOf(sql string) string {
	if strings.Contains(sql, "CREATE SCHEMA") {
		return "install"
	}
	if m := function.FindStringSubmatch(sql); m != nil {
		return m[1]
	}
	return sql
}

func (f *fakeServer) note(c *fakeConn, what string) {
	f.calls = append(f.calls, fakeCall{what, c.args, time.Since(f.began), c})
}

// query answers a statement of the simple protocol.
func (f *fakeServer) query(c *fakeConn, sql string) {
	what := nameOf(sql)
	f.note(c, what)
	switch {
	case f.hangs[what]:
	case f.fails[what] != "":
		c.send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: f.fails[what], Message: "made by the test"}, ready)
	case what == "hello":
		row := func(a, b string) {
			c.send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("a"), DataTypeOID: text}, {Name: []byte("b"), DataTypeOID: text}}},
				&pgproto3.DataRow{Values: [][]byte{[]byte(a), []byte(b)}}, done)
		}
		row(cmp.Or(f.encoding, "UTF8"), cmp.Or(f.standby, map[bool]string{true: "t"}[f.standbys[c.address]], "f"))
		row(cmp.Or(f.layout, "1"), strconv.Itoa(cmp.Or(f.epochs[c.address], f.epoch)))
		c.send(ready)
	case strings.HasPrefix(sql, "LISTEN"):
		c.listens = true
		c.send(done, ready)
	case payload.MatchString(sql):
		for l := range f.conns {
			if l.listens && !f.mute {
				l.send(&pgproto3.NotificationResponse{PID: 1, Channel: "leadership", Payload: payload.FindStringSubmatch(sql)[1]})
			}
		}
		c.send(done, ready)
	default:
		c.send(&pgproto3.EmptyQueryResponse{}, ready)
	}
}

// execute answers a call of a function.
func (f *fakeServer) execute(c *fakeConn, name string) {
	f.note(c, name)
	c.hangs = false
	if code := f.fails[name]; code != "" {
		c.send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: code, Message: "made by the test"})
		return
	}
	if _, other := f.other[name]; other {
		f.other[name]++
	}
	if c.hangs = f.hangs[name] || f.hangs[name+"@"+c.address] || f.other[name]%2 == 1; c.hangs {
		args := c.args
		f.hung = append(f.hung, func() {
			if c.args = args; f.conns[c] {
				f.reply(c, name)
				c.send(ready)
			}
		})
		return
	}
	f.reply(c, name)
}

// release lets what hangs be answered.
func (f *fakeServer) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.hangs)
	for _, answer := range f.hung {
		answer()
	}
	f.hung = nil
}

func (f *fakeServer) reply(c *fakeConn, name string) {
	if severity := f.notices[name]; severity != "" {
		c.send(&pgproto3.NoticeResponse{Severity: "in another language", SeverityUnlocalized: severity, Message: "made by the test"})
	}
	answer := f.answer[name]
	if answer == nil {
		answer = defaults[name]
	}
	if answer != nil {
		f.rows(c, name, answer(c.args))
	}
	c.send(done)
}

func (f *fakeServer) rows(c *fakeConn, name string, row []any) {
	if len(row) == 0 {
		return
	}
	if _, several := row[0].([]any); several {
		for _, row := range row {
			f.rows(c, name, row.([]any))
		}
		return
	}
	d := &pgproto3.DataRow{}
	for i, v := range row {
		d.Values = append(d.Values, f.encode(returns[name][i], c.format(i), v))
	}
	c.send(d)
}

func (f *fakeServer) encode(oid uint32, format int16, v any) []byte {
	if v == nil {
		return nil
	}
	if oid == void {
		return []byte{}
	}
	b, err := pgtype.NewMap().Encode(oid, format, v, []byte{})
	if err != nil {
		f.t.Error(err)
	}
	return b
}
