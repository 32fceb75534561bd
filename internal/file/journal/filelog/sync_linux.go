package filelog

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData does not sync the times of the file, which nobody needs after a crash.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}
