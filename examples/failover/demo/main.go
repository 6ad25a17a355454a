// Demo shows failovers on this machine, with nothing but Go installed: three candidates and a follower, each a process
// of its own, over files in a temporary directory.
//
//	go run ./examples/failover/demo
//
// The leader is killed, the next one frozen and woken again, and the one after that resigns. The demo shows who leads,
// since when, with which token, the queue, and how long each failover took. It ends with status 0 if each happened
// within its bound, in the order of the queue, and was seen by the follower; otherwise with status 1 and a sentence on
// what failed. However it ends, it leaves no process behind, and no file either unless it is killed by SIGKILL.
//
// The program in the directory server shows the same on a real server. The scene itself is in internal/demo.
package main

import (
	"github.com/go-leadership/leadership/internal/demo"
	_ "github.com/go-leadership/leadership/store/file" // the only store in this program
)

func main() { demo.Main(demo.Run) }
