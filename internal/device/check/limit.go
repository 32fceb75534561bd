package check

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mostCPU is the CPU limit of an exam in seconds: more than any exam takes.
const mostCPU = 30 * 60

// Confine gives up what an exam does not need: this process leaves no core dump if it
// crashes, does not compute for ever, and is the first to go when the machine runs out of
// memory. It keeps the right to start setuid programs, because the driver's library loads
// parts of the driver that way.
func Confine() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: mostCPU, Max: mostCPU}); err != nil {
		return fmt.Errorf("limit the time of the processor: %w", err)
	}
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // a kernel may not have it
	return nil
}
