package demo

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// If the demo is killed, its processes end, also a frozen one.
func TestKilled(t *testing.T) {
	for name, c := range map[string]struct {
		step string
		pace time.Duration
	}{
		"paused": {"queue: a, b, c", time.Hour},
		"frozen": {"(SIGSTOP)", 0},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := watched(t)
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Env = append(os.Environ(), wholeVariable+"="+c.pace.String(), "TMPDIR="+t.TempDir())
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			for lines := bufio.NewScanner(out); lines.Scan() && !strings.Contains(lines.Text(), c.step); {
			}
			children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", cmd.Process.Pid))
			require.NoError(t, err)
			var processes []string
			for _, file := range children {
				pids, err := os.ReadFile(file)
				require.NoError(t, err)
				processes = append(processes, strings.Fields(string(pids))...)
			}
			require.Len(t, processes, len(cast))
			require.NoError(t, cmd.Process.Kill())
			require.Error(t, cmd.Wait())
			for _, pid := range processes {
				require.Eventually(t, func() bool {
					stat, err := os.ReadFile("/proc/" + pid + "/stat")
					return err != nil || strings.Contains(string(stat), ") Z ") // its new parent has not reaped it yet
				}, watchdog, 10*time.Millisecond)
			}
		})
	}
}
