// Package testserver runs real ZooKeeper, etcd, Consul and PostgreSQL servers on the loopback interface, for tests and
// for the demo.
//
// Every server has ports, data and a log of its own. [Member] has a method for each fault that a process can suffer: it
// can be stopped, killed, paused, started again with what it had on disk, or with what it had there earlier. A server
// ends with the process that started it, even if that one is killed by SIGKILL.
//
// The servers need Linux. ZooKeeper, which also needs Java, PostgreSQL and PgBouncer are taken from where Debian installs
// them; etcd and Consul are built from source ahead of time. `make setup` does all of that. If something is missing the
// package builds, and every start returns an error that says what to do.
package testserver
