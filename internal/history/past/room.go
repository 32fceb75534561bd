package past

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
)

const (
	// spare is the free space that the past leaves on the disk: the journal of
	// the leases may be on the same one.
	spare = 64 << 20
	// tryAgain is how long a pause lasts before the disk is tried again.
	tryAgain = 30 * time.Second
)

// errNoRoom says that the disk is nearly full.
var errNoRoom = errors.New("the disk is nearly full")

// errPaused says that nothing is stored now. It was told why.
var errPaused = errors.New("the past pauses")

// pause is the time in which nothing is stored. The zero value is none.
type pause struct {
	since   time.Time // zero: there is none
	tried   time.Time
	dropped uint64 // samples that were dropped before it
	why     string
}

// noRoom reports whether an error comes from a full disk, not from damage.
func noRoom(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) || errors.Is(err, errNoRoom)
}

// freeSpace asks the kernel.
func freeSpace(folder string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// roomLeft returns errNoRoom if the disk is nearly full.
func (p *Past) roomLeft() error {
	free, err := p.free(p.dir)
	if err != nil || free >= spare { // a folder that is not there yet has no disk
		return nil
	}
	return fmt.Errorf("%w: %d MiB are free, and the past leaves %d MiB to others", errNoRoom, free>>20, spare>>20)
}

// ready opens the stores if they are not open, also after a pause. The caller
// holds write.
func (p *Past) ready() error {
	if p.closed {
		return errPaused
	}
	if !p.On() {
		if err := p.shut(); err != nil {
			p.log.Warn("cannot close the past", "error", err)
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
	// What a failed write leaves in memory and on disk does not agree. Opening
	// the stores anew makes it agree.
	if err := p.shut(); err != nil {
		p.log.Warn("cannot close the past", "error", err)
	}
	return p.open()
}

// failed begins a pause, or goes on with one. The caller holds write.
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
	p.counted.waiting.Store(false)
}
