package minder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// mostPart is the size at which a log in parts begins anew, and cutPause how often that
	// is looked at.
	mostPart = 16 << 20
	cutPause = 5 * time.Second
)

// older names an older part of a log; 1 is the newest of them.
func older(path string, n int) string { return fmt.Sprintf("%s.%d", path, n) }

// shift makes room for another older part of a log, if there is none. The oldest goes.
func shift(path string, parts int) error {
	if _, err := os.Lstat(older(path, 1)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var all error
	for n := parts; n > 1; n-- {
		if err := os.Rename(older(path, n-1), older(path, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	return all
}

// beginPart puts what an earlier run has written aside, so that the log has one run only.
// If the user may not do that there, the run goes on in the same file.
func beginPart(path string, parts int) {
	if about, err := os.Lstat(path); parts < 1 || err != nil || !about.Mode().IsRegular() || about.Size() == 0 {
		return
	}
	if shift(path, parts) == nil {
		_ = os.Rename(path, older(path, 1))
	}
}

// keepParts cuts a log whenever it has grown too large, until stop is closed.
func keepParts(path string, parts int, stop <-chan struct{}) {
	ticker := time.NewTicker(cutPause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_ = cut(path, parts, mostPart) // it is tried again
		case <-stop:
			return
		}
	}
}

// cut copies a log that has grown too large to an older part, and empties it. Its writers
// append, so they go on at its beginning. What they write between the end of the copy and
// the emptying is lost, and of a log that is longer than three parts together the oldest:
// why a program has ended stands at the end. A log that cannot be copied stays.
func cut(path string, parts int, most int64) error {
	log, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	about, err := log.Stat()
	if err != nil || !about.Mode().IsRegular() || about.Size() < most {
		return err
	}
	if err := shift(path, parts); err != nil {
		return err
	}
	part, err := os.OpenFile(older(path, 1), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(part, io.NewSectionReader(log, max(about.Size()-3*most, 0), 4*most)) // one who writes faster than this copies is no reason to go on for ever
	if err = errors.Join(err, part.Close()); err != nil {                                 // the disk is full, perhaps
		return errors.Join(err, os.Remove(older(path, 1)))
	}
	return log.Truncate(0)
}
