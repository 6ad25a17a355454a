//go:build 386 || arm || mips || mipsle

package guard

import "golang.org/x/sys/unix"

// sysTimerSettime is the call whose seconds have 64 bits on a machine of 32 bits.
const sysTimerSettime = unix.SYS_TIMER_SETTIME64
