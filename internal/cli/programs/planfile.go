package programs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
)

// planFile holds a plan as JSON, for the runs of the plan. It is in memory and
// has no name: it lasts as long as a process has it open, so a process that is
// killed leaves nothing behind.
type planFile struct{ *os.File }

// newPlanFile writes the plan. Nobody can change it afterwards.
func newPlanFile(plan api.Plan) (planFile, error) {
	fd, err := unix.MemfdCreate("berth-plan", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return planFile{}, fmt.Errorf("write the plan for the runs: %w", err)
	}
	f := planFile{os.NewFile(uintptr(fd), "berth-plan")}
	if err = json.NewEncoder(f).Encode(plan); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return planFile{}, errors.Join(fmt.Errorf("write the plan for the runs: %w", err), f.Close())
	}
	return f, nil
}

// Path returns where children find the plan while this process has it open.
func (f planFile) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }

// planNumber is the lowest number under which a run has the plan open: above
// those that programs and scripts choose for their own files.
const planNumber = 60

// takePlan opens the plan for this process and the command it becomes. The path
// contains the process id, so that processes which the command starts can read
// the plan too.
func (o *runOrder) takePlan() error {
	if o.Plan == "" {
		return nil
	}
	fd, err := unix.Open(o.Plan, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return ErrNoOrder
	}
	if err == nil {
		fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD, planNumber) // the other is closed on exec
	}
	if err != nil {
		return fmt.Errorf("open the plan %s: %w", o.Plan, err)
	}
	o.Env = append(o.Env, fmt.Sprintf("BERTH_PLAN=/proc/%d/fd/%d", os.Getpid(), fd))
	return nil
}
