// Package enclosure keeps programs away from GPUs that they have not leased.
//
// A Pool moves a process into a control group in which a filter lets only the leased GPUs
// be opened (cgroup v2, BPF_PROG_TYPE_CGROUP_DEVICE). It is not in package cgroup because
// bin/berth needs that one, and would start later with all that loads filters.
//
// The group of a lease lies below the one that the process was in, so limits and filters there still
// apply. Its name consists of berth, the fence of the lease, and a tag of the daemon:
// berth-12-3f9a1c02. The filter stays if the daemon ends, even by kill -9; the next
// daemon finds its groups by their names and removes them when their leases have ended.
package enclosure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/cgroup"
)

// Pool keeps the control groups of leases.
type Pool struct {
	tag       string
	processes process.Table
	wake      chan struct{} // signals that a lease has ended; has room for one

	count  atomic.Int64 // number of groups: a daemon without groups need not lock mu
	mu     sync.Mutex   // guards what follows; held for moments only
	groups map[uint64]string
	ended  []string // groups whose leases have ended
}

// New returns a pool whose groups have this tag in their names, so that other daemons of
// the machine do not take them for theirs.
func New(tag string) *Pool {
	return &Pool{tag: tag, processes: process.Proc(), wake: make(chan struct{}, 1), groups: map[uint64]string{}}
}

// again is how long Run waits before it tries again to remove a group that still has
// processes.
const again = time.Second

// Available returns nil if this daemon can filter devices, as far as that is known before
// it has a process to move. Otherwise the error says why not.
func (p *Pool) Available() error {
	if _, err := cgroup.Top(); err != nil {
		return err
	}
	program, err := load(nil)
	if err != nil {
		return explain(err)
	}
	return program.Close()
}

// explain adds the remedy to an error of the kernel.
func explain(err error) error {
	if errors.Is(err, ebpf.ErrNotSupported) {
		return fmt.Errorf("%w: %s", err, cgroup.NoFilters)
	}
	return cgroup.Explain(err)
}

// Enclose moves a process into a group of its own, which can open only those of NVIDIA's
// GPUs that have these minors. It leaves a process alone that is in the group of the lease
// already. leavable reports whether the user of the process can move it out again.
func (p *Pool) Enclose(id process.ID, fence uint64, minors []int) (leavable bool, err error) {
	top, outer, err := cgroup.Of(id.PID)
	if err != nil {
		return false, err
	}
	if filepath.Base(outer) == p.name(fence) && isRoots(outer) { // it asks again
		p.keep(fence, outer)
		return p.leavable(id, filepath.Dir(outer), top), nil
	}
	inner := filepath.Join(outer, p.name(fence))
	if err := p.make(inner, outer, minors); err != nil {
		return false, explain(err)
	}
	if err := p.move(id, inner); err != nil {
		p.mu.Lock()
		p.dispose(inner) // it has no lease
		p.mu.Unlock()
		return false, explain(err)
	}
	p.keep(fence, inner)
	return p.leavable(id, outer, top), nil
}

func (p *Pool) name(fence uint64) string { return fmt.Sprintf("berth-%d-%s", fence, p.tag) }

// make makes a group with its filter. It first removes an empty group of that name, which
// is left from earlier.
func (p *Pool) make(inner, outer string, minors []int) error {
	err := os.Mkdir(inner, 0o755)
	if errors.Is(err, fs.ErrExist) && os.Remove(inner) == nil {
		err = os.Mkdir(inner, 0o755)
	}
	if err != nil {
		return fmt.Errorf("make a control group: %w", err)
	}
	if err := attachTo(inner, outer, minors); err != nil {
		return errors.Join(err, os.Remove(inner))
	}
	return nil
}

// move moves exactly this process into a group. A group takes a pid, and pids are reused:
// a pidfd proves that the process had its pid all the time. It returns ErrGone only if the
// process has ended, and not if no file can be opened.
func (p *Pool) move(id process.ID, group string) error {
	pidfd, err := unix.PidfdOpen(id.PID, 0)
	if err == unix.ESRCH {
		err = process.ErrGone
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", id.PID, err)
	}
	defer unix.Close(pidfd)
	now, err := p.processes.Identify(id.PID)
	if err == nil && now != id {
		err = process.ErrGone
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", id.PID, err)
	}
	if err := cgroup.Write(filepath.Join(group, "cgroup.procs"), strconv.Itoa(id.PID)); err != nil {
		return fmt.Errorf("move process %d into its control group: %w", id.PID, err)
	}
	over, err := process.Ended(pidfd)
	if over {
		err = process.ErrGone
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", id.PID, err)
	}
	return nil
}

// leavable reports whether the user of a process in a group below outer can move it out:
// one of the groups around it belongs to that user, as below a systemd user manager. It
// reports false for root, who can leave every group and needs no warning.
func (p *Pool) leavable(id process.ID, outer, top string) bool {
	uid, err := p.processes.UID(id.PID)
	if err != nil || uid == 0 {
		return false
	}
	for group := outer; len(group) >= len(top); group = filepath.Dir(group) {
		var about unix.Stat_t
		if err := unix.Stat(filepath.Join(group, "cgroup.procs"), &about); err == nil && (int(about.Uid) == uid || about.Mode&0o002 != 0) {
			return true
		}
	}
	return false
}

// keep records the group of a lease. A group that the lease had before goes when its last
// process has.
func (p *Pool) keep(fence uint64, group string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if before := p.groups[fence]; before != "" && before != group {
		p.dispose(before)
	}
	p.groups[fence] = group
	p.count.Store(int64(len(p.groups)))
}

// Encloses reports whether the lease with this fence has a group.
func (p *Pool) Encloses(fence uint64) bool {
	if p.count.Load() == 0 {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.groups[fence] != ""
}

// Release records that a lease has ended; it need not have had a group. Run removes the
// group when it has no processes any more.
func (p *Pool) Release(fence uint64) {
	if p.count.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	group, has := p.groups[fence]
	if !has {
		return
	}
	delete(p.groups, fence)
	p.count.Store(int64(len(p.groups)))
	p.dispose(group)
}

// dispose adds a group to those that Run removes. The caller holds mu.
func (p *Pool) dispose(group string) {
	p.ended = append(p.ended, group)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run finds the groups that an earlier daemon left, and removes the groups of leases that
// have ended, until ctx ends. stands reports whether a lease with this fence exists.
func (p *Pool) Run(ctx context.Context, stands func(fence uint64) bool) {
	p.recall(stands)
	for {
		var retry <-chan time.Time
		if p.tidy() > 0 {
			retry = time.After(again)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-retry:
		}
	}
}

// tidy removes the empty groups of ended leases, and returns how many are not empty. A
// process that is left in a group keeps its filter.
func (p *Pool) tidy() int {
	p.mu.Lock()
	ended := p.ended
	p.ended = nil
	p.mu.Unlock()
	var left []string
	for _, group := range ended {
		if err := os.Remove(group); errors.Is(err, unix.EBUSY) {
			left = append(left, group)
		}
	}
	p.mu.Lock()
	p.ended = append(p.ended, left...)
	p.mu.Unlock()
	return len(left)
}

// recall finds the groups with the tag of this pool. If a lease ends meanwhile, recall or
// Release notices it.
func (p *Pool) recall(stands func(fence uint64) bool) {
	top, err := cgroup.Top()
	if err != nil || os.Geteuid() != 0 { // only root can have made groups
		return
	}
	p.recallBelow(top, stands)
}

// recallBelow is recall for the groups below one. It leaves alone what another user has
// made: the tag is no secret, and a user may make groups below one that is the user's.
func (p *Pool) recallBelow(top string, stands func(fence uint64) bool) {
	_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // the group has just gone
		}
		if fence, ours := p.fenceOf(d.Name()); ours && isRoots(path) {
			p.keep(fence, path)
			if !stands(fence) {
				p.Release(fence)
			}
		}
		return nil
	})
}

// isRoots reports whether a group belongs to root.
func isRoots(group string) bool {
	var about unix.Stat_t
	return unix.Lstat(group, &about) == nil && about.Uid == 0
}

// fenceOf returns the fence in the name of a group of this pool.
func (p *Pool) fenceOf(name string) (fence uint64, ours bool) {
	middle, begins := strings.CutPrefix(name, "berth-")
	middle, ends := strings.CutSuffix(middle, "-"+p.tag)
	fence, err := strconv.ParseUint(middle, 10, 64)
	return fence, begins && ends && err == nil
}
