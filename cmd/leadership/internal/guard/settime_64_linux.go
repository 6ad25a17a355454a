//go:build !(386 || arm || mips || mipsle)

package guard

import "golang.org/x/sys/unix"

const sysTimerSettime = unix.SYS_TIMER_SETTIME
