package ledger

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
)

func TestLeaseEndsWithItsProcess(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	holder, other := child(t), child(t)
	for _, id := range []string{"a1", "a2"} {
		k.grant(want(id, 40, k.bound(holder.Process.Pid)))
	}
	k.grant(want("named", 10, k.held(holder.Process.Pid)))
	k.grant(want("other", 10, k.bound(other.Process.Pid)))
	waits := k.queue(t.Context(), want("next", 80, wait(time.Hour), of(2)))
	kill(t, holder)
	for _, id := range []string{"a1", "a2"} {
		if e := k.told(gpu.EventReleased, id); !strings.Contains(e.Text, "its process ended") {
			t.Errorf("the end was told as %q", e.Text)
		}
	}
	if d := <-waits; d.err != nil {
		t.Errorf("the one who waited got %v", d.err)
	}
	if got, want := k.leases(), []string{"named", "other", "next"}; !slices.Equal(got, want) {
		t.Errorf("leases are %v, want %v", got, want)
	}
	k.give("other", 1)
	if n := k.watched(); n != 0 {
		t.Errorf("%d processes are still watched", n)
	}
}

// An end that the watch missed is made up for, and a process that lives is left
// alone.
func TestExited(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	holder, other := child(t), child(t)
	missed := k.grant(want("missed", 40, k.bound(holder.Process.Pid)))
	stands := k.grant(want("stands", 40, k.bound(other.Process.Pid)))
	k.holders.left(missed) // nobody watches it any more
	kill(t, holder)
	k.Exited(processOf(missed))
	k.Exited(processOf(stands))
	if got := k.leases(); !slices.Equal(got, []string{"stands"}) {
		t.Errorf("leases are %v", got)
	}
}

// watched is how many processes are watched.
func (k *keeper) watched() int { return k.holders.watches.len() }

func TestProcessThatIsDeadAlreadyGetsNothing(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	dead, recycled := child(t), child(t)
	ofDead := want("dead", 100, k.bound(dead.Process.Pid))
	kill(t, dead)
	ofRecycled := want("recycled", 100, k.bound(recycled.Process.Pid))
	ofRecycled.Holder.Start-- // another process had the pid before
	for _, r := range []lease.Request{ofDead, ofRecycled} {
		if err := k.refused(r); !errors.Is(err, process.ErrGone) {
			t.Errorf("%s was refused with %v", r.ID, err)
		}
	}
	if got := k.leases(); len(got) != 0 || k.watched() != 0 {
		t.Errorf("%v stand, and %d processes are watched", got, k.watched())
	}
	k.grant(want("a", 100))
}

// A process may die while somebody else waits in its name.
func TestProcessThatDiesInTheQueueGetsNothing(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 100)
	holder := child(t)
	k.grant(want("a", 100))
	dead := k.queue(t.Context(), want("dead", 100, k.bound(holder.Process.Pid), wait(time.Hour)))
	next := k.queue(t.Context(), want("next", 100, wait(time.Hour), of(2)))
	kill(t, holder)
	k.give("a", 1)
	if d := <-dead; !errors.Is(d.err, process.ErrGone) {
		t.Errorf("dead got %v", d.err)
	}
	if d := <-next; d.err != nil {
		t.Errorf("next got %v", d.err)
	}
}

// Releases, grants and deaths of one process at the same time leave nothing
// behind.
func TestHolderThatDiesInTheMiddleOfEverything(t *testing.T) {
	k := newWorld().start(t)
	k.device(0, 1000)
	for round := range 20 {
		holder := child(t)
		request := want("", 1, k.bound(holder.Process.Pid))
		done := make(chan struct{})
		for i := range 4 {
			go func() {
				defer func() { done <- struct{}{} }()
				for n := range 50 {
					r := request
					r.ID = fmt.Sprintf("%d-%d-%d", round, i, n)
					_, err := k.Acquire(t.Context(), r)
					if errors.Is(err, process.ErrGone) {
						return
					}
					if err == nil && n%2 == 0 {
						_, err = k.Release(t.Context(), byID(r.ID), 0, by(1))
					}
					if err != nil && !errors.Is(err, lease.ErrUnknown) {
						t.Errorf("%s: %v", r.ID, err)
					}
				}
			}()
		}
		kill(t, holder)
		for range 4 {
			<-done
		}
		// Whatever was granted before the end was noticed ends with it.
		for _, held := range k.View().Leases {
			k.told(gpu.EventReleased, held.ID)
		}
	}
	if got := k.leases(); len(got) != 0 {
		t.Errorf("%v stand", got)
	}
	until(t, "the last process is watched no longer", func() bool { return k.watched() == 0 })
}

// A holder that cannot be watched for want of files is not a dead one: its lease stands, and
// is watched as soon as that can be.
func TestHolderThatCannotBeWatched(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	first, second := child(t), child(t)
	k.grant(want("first", 10, k.bound(first.Process.Pid)))
	request := want("second", 10, k.bound(second.Process.Pid))
	withoutFiles(t, func() { k.grant(request) })
	until(t, "it is watched", func() bool { return k.watched() == 2 })
	kill(t, second)
	k.told(gpu.EventReleased, "second")
	k.stop()

	// After a restart its lease stands, and is watched as soon as that can be.
	l, err := Open(Options{Settings: w.settings, Processes: process.Proc(), Open: w.open})
	if err != nil {
		t.Fatal(err)
	}
	withoutFiles(t, l.holders.resume)
	if l.book.Lease(l.only("first")) == nil {
		t.Error("the lease of a living holder was ended")
	}
	if l.holders.catchUp(); l.holders.watches.len() != 1 || len(l.holders.backlog.unwatched) != 0 {
		t.Errorf("%d processes are watched, and %d are to be", l.holders.watches.len(), len(l.holders.backlog.unwatched))
	}
	l.holders.watches.close()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// withoutFiles does something while no file can be opened.
func withoutFiles(t *testing.T, do func()) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Cur: 0, Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}

// called knows users by names made from their numbers.
type called struct{}

func (called) Of(uid int) string  { return "user" + strconv.Itoa(uid) }
func (called) Now(uid int) string { return "user" + strconv.Itoa(uid) }

func TestSpeakingForAProcess(t *testing.T) {
	k := newWorld().start(t)
	k.census.names = called{}
	holder := child(t)
	pid, uid := holder.Process.Pid, os.Geteuid()
	self := lease.Holder{UID: uid, User: "me", PID: os.Getpid(), Name: "test"}
	owner := actor(self)
	h, err := k.HolderOf(pid, owner, self)
	if err != nil || h.PID != pid || h.Start == 0 || h.Boot != k.boot || h.User != "me" || h.Name != "cat" {
		t.Errorf("its owner speaks for %+v, %v", h, err)
	}
	stranger := lease.Holder{UID: uid + 1, User: "you"}
	if _, err := k.HolderOf(pid, actor(stranger), stranger); !errors.Is(err, lease.ErrNotYours) {
		t.Errorf("a stranger: %v", err)
	}
	h, err = k.HolderOf(pid, admin(lease.NoUID), lease.Holder{UID: lease.NoUID, User: "token"})
	if err != nil || h.UID != uid || h.User != "user"+strconv.Itoa(uid) {
		t.Errorf("an administrator speaks for %+v, %v", h, err)
	}
	kill(t, holder)
	if _, err := k.HolderOf(pid, owner, self); !errors.Is(err, process.ErrGone) {
		t.Errorf("a dead process: %v", err)
	}
}
