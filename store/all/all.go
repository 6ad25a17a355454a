// Package all registers the schemes of every store of this module, for programs that are told by their configuration
// which one to use:
//
//	import _ "github.com/go-leadership/leadership/store/all"
//
// It links the clients of all of them. A program that always uses the same store imports that one alone. PostgreSQL is not
// among them: store/postgres is a module of its own, and a program that wants it imports that, too.
package all

import (
	_ "github.com/go-leadership/leadership/store/consul"
	_ "github.com/go-leadership/leadership/store/etcd"
	_ "github.com/go-leadership/leadership/store/file"
	_ "github.com/go-leadership/leadership/store/memory"
	_ "github.com/go-leadership/leadership/store/zookeeper"
)
