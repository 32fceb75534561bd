package cuda

// #include <stdlib.h>
// #include "driver.h"
import "C"

import (
	"errors"
	"fmt"
	"time"
	"unsafe"
)

// ErrTooOld means that the driver cannot move the memory of other processes.
var ErrTooOld = errors.New("the driver is too old: 570 or newer is needed")

// LoadCheckpoint loads the driver library and starts it, to move the memory of
// other processes. That takes no memory of a device. It returns ErrTooOld for a
// driver that cannot do it.
func LoadCheckpoint(library string) error {
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	if why := C.berth_cuda_load(name, C.berth_cuda_checkpoint); why == C.berth_cuda_old {
		return ErrTooOld
	} else if why != nil {
		return fmt.Errorf("%w: %s", ErrNoLibrary, C.GoString(why))
	}
	return failure("cuInit", C.berth_cuInit(0))
}

// ProcessState is the state of a process, by the driver's numbers.
type ProcessState int

// The states.
const (
	ProcessRunning ProcessState = iota
	ProcessLocked
	ProcessCheckpointed
	ProcessFailed
)

// The functions from here on may be called from any thread, for several processes
// at once. A call for a process that is stopped by a signal does not return, and a
// call waits until the one before it for the same process is done, even if the
// process that made it has ended.

// StateOf returns the state of a process.
func StateOf(pid int) (ProcessState, error) {
	var state C.int
	err := failure("cuCheckpointProcessGetState", C.berth_cuCheckpointProcessGetState(C.int(pid), &state))
	return ProcessState(state), err
}

// ThreadOf returns the thread of a process in which the driver moves its memory. It
// answers for a process that is stopped too.
func ThreadOf(pid int) (int, error) {
	var tid C.int
	err := failure("cuCheckpointProcessGetRestoreThreadId", C.berth_cuCheckpointProcessGetRestoreThreadId(C.int(pid), &tid))
	return int(tid), err
}

// Lock makes the calls of a process to the driver wait. It fails if a call that the
// process has made before is not done in time.
func Lock(pid int, limit time.Duration) error {
	return failure("cuCheckpointProcessLock", C.berth_cuda_lock(C.int(pid), C.uint(limit.Milliseconds())))
}

// Checkpoint moves the memory of a locked process off its devices.
func Checkpoint(pid int) error {
	return failure("cuCheckpointProcessCheckpoint", C.berth_cuCheckpointProcessCheckpoint(C.int(pid), nil))
}

// Restore moves the memory of a process back to its devices.
func Restore(pid int) error {
	return failure("cuCheckpointProcessRestore", C.berth_cuCheckpointProcessRestore(C.int(pid), nil))
}

// Unlock lets the calls of a locked process go on.
func Unlock(pid int) error {
	return failure("cuCheckpointProcessUnlock", C.berth_cuCheckpointProcessUnlock(C.int(pid), nil))
}

// Uninitialized reports whether the error means that a process does not use the driver.
func (e *Error) Uninitialized() bool { return e.Code == 3 }
