package programs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
)

// newPlanFile returns a file that holds a plan as JSON, for the runs of the plan.
// It is in memory and has no name: it lasts as long as a process has it open, so
// a process that is killed leaves nothing behind. Nobody can change it.
func newPlanFile(plan api.Plan) (*os.File, error) {
	fd, err := unix.MemfdCreate("berth-plan", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("write the plan for the runs: %w", err)
	}
	f := os.NewFile(uintptr(fd), "berth-plan")
	if err = json.NewEncoder(f).Encode(plan); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write the plan for the runs: %w", err), f.Close())
	}
	return f, nil
}

// pathOf returns the path at which children find a file that this process has open.
func pathOf(fd uintptr) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd) }

// planNumber is the lowest file descriptor for the plan in a run: above those that
// programs and scripts choose for their own files.
const planNumber = 60

// takePlan opens the plan for this process and the command it becomes. The path
// contains the process id, so that processes that the command starts can read the plan
// too.
func (o *runOrder) takePlan() error {
	if o.Plan == "" {
		return nil
	}
	fd, err := unix.Open(o.Plan, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return ErrNoOrder
	}
	if err == nil {
		fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD, planNumber) // the other descriptor is closed on exec
	}
	if err != nil {
		return fmt.Errorf("open the plan %s: %w", o.Plan, err)
	}
	o.Env = append(o.Env, "BERTH_PLAN="+pathOf(uintptr(fd)))
	return nil
}
