// Package servers tries the subcommands of leadership on servers of ZooKeeper, etcd and Consul that are frozen and killed
// meanwhile. The tests of package main need no server.
package servers
