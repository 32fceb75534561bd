package past

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
)

const (
	// spare is the free space that the past leaves on the disk: the journal of the leases
	// may be on the same disk.
	spare = 64 << 20
	// tryAgain is how long a pause lasts before the disk is tried again.
	tryAgain = 30 * time.Second
)

// errNoRoom means that the disk is nearly full.
var errNoRoom = errors.New("the disk is nearly full")

// errPaused means that nothing is stored now. An event has said why.
var errPaused = errors.New("the past pauses")

// pause is a time in which nothing is stored. The zero value means none.
type pause struct {
	since   time.Time // zero if there is none
	tried   time.Time
	dropped uint64 // samples that had been dropped before it
	why     string
}

// noRoom reports whether an error comes from a full disk, not from damage.
func noRoom(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) || errors.Is(err, errNoRoom)
}

// passing reports whether an error comes from what the machine has too little of at
// present, or from a disk that is away or closed to berth, not from damage.
func passing(err error) bool {
	for _, one := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.EACCES, unix.EPERM, unix.ESTALE, unix.ETIMEDOUT, unix.ENOTCONN, unix.EHOSTDOWN} {
		if errors.Is(err, one) {
			return true
		}
	}
	return noRoom(err)
}

// freeSpace asks the kernel for the free space of a folder's file system.
func freeSpace(folder string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// roomLeft returns errNoRoom if the disk is nearly full.
func (p *Past) roomLeft() error {
	free, err := p.o.Free(p.dir)
	if err != nil || free >= spare { // a folder that does not exist yet has no disk
		return nil
	}
	return fmt.Errorf("%w: %d MiB are free, and the past leaves %d MiB to others", errNoRoom, free>>20, spare>>20)
}

// ready opens the stores if they are not open, including after a pause. The caller holds
// write.
func (p *Past) ready() error {
	if p.closed {
		return errPaused
	}
	if !p.On() {
		if err := p.shut(); err != nil {
			p.o.Log.Warn("cannot close the past", "error", err)
		}
		p.pause = pause{}
		p.counted.waiting.Store(false)
		return errPaused
	}
	if p.pause.since.IsZero() {
		return p.open()
	}
	if time.Since(p.pause.tried) < tryAgain {
		return errPaused
	}
	p.pause.tried = time.Now()
	if err := p.roomLeft(); err != nil {
		return err
	}
	// After a failed write, memory and disk do not agree. Opening the stores anew makes
	// them agree.
	if err := p.shut(); err != nil {
		p.o.Log.Warn("cannot close the past", "error", err)
	}
	return p.open()
}

// failed begins a pause, or continues one. The caller holds write.
func (p *Past) failed(err error) {
	if errors.Is(err, errPaused) {
		return
	}
	now := time.Now()
	first := p.pause.since.IsZero()
	if first {
		p.pause = pause{since: now, dropped: p.counted.dropped.Load()}
		p.counted.waiting.Store(true)
	}
	p.pause.tried = now
	if why := err.Error(); first || noRoom(err) != (p.pause.why == errNoRoom.Error()) {
		p.pause.why = why
		if noRoom(err) {
			p.pause.why = errNoRoom.Error()
		}
		p.say(gpu.Warning, "The past pauses: %v. Leases and measurements go on. berth tries again every %v", err, tryAgain)
	}
}

// goesOn ends a pause. The caller holds write.
func (p *Past) goesOn() {
	if p.pause.since.IsZero() {
		return
	}
	missing := p.counted.dropped.Load() - p.pause.dropped
	p.say(gpu.Note, "The past goes on after %v. %d samples are missing", time.Since(p.pause.since).Round(time.Second), missing)
	p.pause = pause{}
	p.counted.resumed.Store(time.Now())
	p.counted.waiting.Store(false)
}
