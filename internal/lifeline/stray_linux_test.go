package lifeline

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStrayVariable: a program that is started with the variable of a lifeline, by mistake, says why it ends.
func TestStrayVariable(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"1", "2", "x"} {
		cmd := exec.Command(os.Args[0], "-test.run", "^$")
		cmd.Env = append(os.Environ(), childVariable+"="+value)
		output, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Equal(t, 1, cmd.ProcessState.ExitCode())
		require.Regexp(t, `^LEADERSHIP_LIFELINE_OF is set, so this process is the lifeline of another one, but: .+ unset LEADERSHIP_LIFELINE_OF\.\n$`, string(output))
	}
}
