package testserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// The superuser of each PostgreSQL server, and the password with which the user connects if passwords are asked for.
const (
	PostgresUser     = "tester"
	PostgresPassword = "secret"
)

// PostgresConfig says what to start. Its zero value is a server that trusts everyone on the loopback interface.
type PostgresConfig struct {
	// SCRAM makes clients prove that they know their user's password; see [PostgresPassword]. By default any user
	// connects without one.
	SCRAM bool

	// TLS says how clients connect: with [ServerTLS] in no other way, with [MutualTLS] only if the client's certificate
	// has the user's name. There is a superuser with the name of the certificates' client, [ClientName].
	TLS TLS

	// Fsync makes the server wait for the disk, as servers in production do. By default it does not: what it wrote
	// outlives its process, and not the machine.
	Fsync bool

	// Fresh makes a new system identifier. By default the server begins as a copy of one that was made earlier, in a
	// tenth of the time, and all have the same identifier.
	Fresh bool

	// DiskSize puts the data, about 40 MB at the start, on a disk of that many bytes, for [Postgres.FillDisk]. It is a
	// tmpfs, which root alone may mount: in a container it needs the capability CAP_SYS_ADMIN. Such data can't be saved
	// or restored. By default the data is on the disk of the temporary directory.
	DiskSize int64

	// Extra are further settings of postgresql.conf, by name. They replace defaults of the same name. ALTER SYSTEM
	// replaces them.
	Extra map[string]string
}

// Postgres is a PostgreSQL server, primary or standby: a service of one member. To stop the member is a fast shutdown,
// which waits for no client. Kill and Pause reach all of the server's processes. If the tests run as root, the server
// runs as the user nobody.
//
// All methods but Standby may be called at the same time. Clients connect by TCP. [Postgres.Query] and standbys connect through a Unix socket that no configuration closes.
type Postgres struct {
	*service
	Certificates
	programs string // where initdb and others are
	primary  *Postgres
	data     string
	socket   string // the directory
	port     string
	syncs    []string // names of the standbys that a commit waits for
}

// StartPostgres starts a server and waits until it serves. Ctx bounds the start only; the server runs until Close.
func StartPostgres(ctx context.Context, cfg PostgresConfig) (*Postgres, error) {
	return startPostgres(ctx, cfg, nil, reservePorts)
}

func startPostgres(ctx context.Context, cfg PostgresConfig, primary *Postgres, reserve reserveFunc) (*Postgres, error) {
	program, err := findPostgres()
	if err != nil {
		return nil, err
	}
	p := &Postgres{programs: filepath.Dir(program), primary: primary}
	p.service, err = plan{
		name:    "postgresql",
		members: 1,
		ports:   1,
		reserve: reserve,
		equip: func(dir string, members []*Member, ports []int) (err error) {
			if p.Certificates, _, err = cfg.TLS.prepare(dir); err != nil {
				return err
			}
			return p.equip(ctx, cfg, members[0], ports[0])
		},
	}.start(ctx)
	if err != nil {
		return nil, err
	}
	if cfg.TLS == MutualTLS && primary == nil {
		if _, err := p.Psql(ctx, "CREATE ROLE "+ClientName+" SUPERUSER LOGIN PASSWORD '"+PostgresPassword+"'"); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return p, nil
}

func (p *Postgres) equip(ctx context.Context, cfg PostgresConfig, m *Member, port int) error {
	p.data, p.socket, p.port = m.dataDir(), m.dir, strconv.Itoa(port)
	m.server = &postgresServer{program: filepath.Join(p.programs, "postgres"), dir: m.dir, data: p.data, conninfo: p.conninfo()}
	release := func() error { return nil }
	m.stopSignal = syscall.SIGINT
	m.discard = func() error { return removeSharedMemory(p.data) }
	m.finish = func() error {
		err := errors.Join(quit(m), m.discard(), release())
		release = func() error { return nil }
		return err
	}
	if cfg.DiskSize > 0 {
		unmount, err := mountDisk(p.data, cfg.DiskSize)
		if err != nil {
			return err
		}
		release = unmount
	}
	if err := giveAway(filepath.Dir(m.dir)); err != nil {
		return err
	}
	settings := p.settings(cfg)
	var err error
	switch {
	case p.primary != nil:
		settings["primary_conninfo"] = p.primary.conninfo() + " application_name=" + standbyName(m)
		err = p.primary.copyTo(ctx, m)
	case cfg.Fresh:
		err = initdb(ctx, p.programs, m.dir, p.data)
	default:
		err = copyTemplate(ctx, p.programs, p.data)
	}
	if err != nil {
		return err
	}
	maps.Copy(settings, cfg.Extra)
	return errors.Join(
		os.WriteFile(m.file("postgresql.conf"), conf(settings), 0o644),
		os.WriteFile(m.file("pg_hba.conf"), []byte(p.access(cfg)), 0o644),
		giveAway(filepath.Dir(m.dir)),
	)
}

func (p *Postgres) settings(cfg PostgresConfig) map[string]string {
	settings := map[string]string{
		"lc_messages":             "C", // errors are looked for in the log
		"listen_addresses":        "127.0.0.1",
		"port":                    p.port,
		"unix_socket_directories": p.socket,
		"data_directory":          p.data,
		"hba_file":                filepath.Join(p.socket, "pg_hba.conf"),
		"max_connections":         "300",
		"shared_buffers":          "32MB",
		// Memory in files of the data directory goes with the directory, even if the server is killed.
		"dynamic_shared_memory_type":  "mmap",
		"wal_keep_size":               "1GB", // for a standby that is disconnected
		"wal_retrieve_retry_interval": "1s",
	}
	if !cfg.Fsync {
		settings["fsync"] = "off"
	}
	if cfg.DiskSize > 0 {
		settings["wal_keep_size"] = "0"
	}
	if cfg.TLS != NoTLS {
		settings["ssl"], settings["ssl_cert_file"], settings["ssl_key_file"] = "on", p.serverCert, p.serverKey
	}
	if cfg.TLS == MutualTLS {
		settings["ssl_ca_file"] = p.CACert
	}
	return settings
}

// access returns the pg_hba.conf. The socket is in a directory that is ours alone.
func (p *Postgres) access(cfg PostgresConfig) string {
	kind, method, options := "host", "trust", ""
	if cfg.TLS != NoTLS {
		kind = "hostssl"
	}
	if cfg.SCRAM {
		method = "scram-sha-256"
	}
	if cfg.TLS == MutualTLS {
		options = " clientcert=verify-full"
	}
	return "local all all trust\nlocal replication all trust\n" + kind + " all all 127.0.0.1/32 " + method + options + "\n"
}

func conf(settings map[string]string) []byte {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	return []byte(b.String())
}

// findPostgres returns the path of the server's program, of the newest version that there is.
func findPostgres() (string, error) {
	found, err := filepath.Glob(postgresPrograms)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", errors.New("PostgreSQL is not installed: apt-get install postgresql (or run `make setup STORE=postgresql`)")
	}
	return slices.MaxFunc(found, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	}), nil
}

// postgresPrograms is where Debian has PostgreSQL's server, by version, outside the PATH. A test changes it.
var postgresPrograms = "/usr/lib/postgresql/*/bin/postgres"
