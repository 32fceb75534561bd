package users

import (
	"errors"
	"os/user"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const limit = 200 * time.Millisecond

// database is a user database that can hang and fail.
type database struct {
	asked atomic.Int64
	under atomic.Int64 // lookups under way
	mu    sync.Mutex
	names map[int]string
	err   error
	hang  chan struct{} // not nil: answers come when it is closed
}

func (d *database) lookup(uid int) (string, error) {
	d.asked.Add(1)
	d.under.Add(1)
	defer d.under.Add(-1)
	d.mu.Lock()
	hang := d.hang
	d.mu.Unlock()
	if hang != nil {
		<-hang
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return "", d.err
	}
	if name, known := d.names[uid]; known {
		return name, nil
	}
	return "", user.UnknownUserIdError(uid)
}

func (d *database) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// wantOf asks with Of, and wants the answer to take so long.
func wantOf(t *testing.T, n *Names, uid int, want string, took time.Duration) {
	t.Helper()
	begun := time.Now()
	if got := n.Of(uid); got != want {
		t.Errorf("Of(%d) = %q, want %q", uid, got, want)
	}
	if got := time.Since(begun); got != took {
		t.Errorf("Of(%d) took %v, want %v", uid, got, took)
	}
}

// wantNow asks with Now, which must not wait.
func wantNow(t *testing.T, n *Names, uid int, want string) {
	t.Helper()
	begun := time.Now()
	if got := n.Now(uid); got != want {
		t.Errorf("Now(%d) = %q, want %q", uid, got, want)
	}
	if got := time.Since(begun); got != 0 {
		t.Errorf("Now(%d) waited %v", uid, got)
	}
}

func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{names: map[int]string{1000: "alice", 1001: "bob"}}
		n := New(d.lookup, limit)
		wantOf(t, n, 1000, "alice", 0)
		wantOf(t, n, 1000, "alice", 0)
		wantOf(t, n, 7, "7", 0)
		wantNow(t, n, 7, "7")
		if got := d.asked.Load(); got != 2 {
			t.Errorf("the database was asked %d times, want once per user", got)
		}
		wantNow(t, n, 1001, "1001") // not known yet, and looked up aside
		synctest.Wait()
		wantNow(t, n, 1001, "bob")
	})
}

// Nobody waits longer than the limit, and those who ask next do not wait at
// all; the name is there as soon as the database answers.
func TestHungDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{names: map[int]string{1000: "alice"}, hang: make(chan struct{})}
		n := New(d.lookup, limit)
		wantNow(t, n, 1000, "1000")
		wantOf(t, n, 1000, "1000", limit)
		wantOf(t, n, 1000, "1000", 0)
		time.Sleep(retryAfter)
		wantOf(t, n, 1000, "1000", limit)
		if got := d.asked.Load(); got != 1 {
			t.Errorf("%d lookups of one user were begun, want 1 while it hangs", got)
		}
		close(d.hang)
		synctest.Wait()
		wantNow(t, n, 1000, "alice")
		wantOf(t, n, 1000, "alice", 0)
	})
}

func TestHungDatabasePilesNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{names: map[int]string{1: "one", 900: "late"}, hang: make(chan struct{})}
		n := New(d.lookup, limit)
		for uid := range 500 {
			wantNow(t, n, uid, strconv.Itoa(uid))
		}
		wantOf(t, n, 900, "900", limit)
		wantOf(t, n, 900, "900", 0)
		if got := d.under.Load(); got != maxLookups {
			t.Errorf("%d lookups hang, want at most %d", got, maxLookups)
		}
		close(d.hang)
		synctest.Wait()
		time.Sleep(retryAfter)
		wantOf(t, n, 1, "one", 0)
		wantOf(t, n, 900, "late", 0)
	})
}

// Of waits for its turn while other lookups are under way, and does not look
// up twice.
func TestBusyDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := map[int]string{}
		for uid := range 20 {
			names[uid] = "u" + strconv.Itoa(uid)
		}
		asked := atomic.Int64{}
		n := New(func(uid int) (string, error) {
			asked.Add(1)
			time.Sleep(10 * time.Millisecond)
			return names[uid], nil
		}, limit)
		var group sync.WaitGroup
		for uid := range 20 {
			for range 2 {
				group.Go(func() {
					if got := n.Of(uid); got != names[uid] {
						t.Errorf("Of(%d) = %q, want %q", uid, got, names[uid])
					}
				})
			}
		}
		group.Wait()
		if got := asked.Load(); got != 20 {
			t.Errorf("%d lookups for 20 users", got)
		}
	})
}

func TestOldNamesAreAnsweredWhileTheyAreRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{names: map[int]string{1000: "alice"}}
		n := New(d.lookup, limit)
		wantOf(t, n, 1000, "alice", 0)
		time.Sleep(goodFor)
		hang := make(chan struct{})
		d.set(func() { d.names[1000], d.hang = "alicia", hang })
		wantOf(t, n, 1000, "alice", 0)
		time.Sleep(time.Hour)
		wantOf(t, n, 1000, "alice", 0)
		wantNow(t, n, 1000, "alice")
		close(hang)
		synctest.Wait()
		wantNow(t, n, 1000, "alicia")

		time.Sleep(goodFor)
		d.set(func() { d.err, d.hang = errors.New("the server is down"), nil })
		wantNow(t, n, 1000, "alicia")
		synctest.Wait()
		wantOf(t, n, 1000, "alicia", 0) // trouble of the database takes no name away
		time.Sleep(retryAfter)
		d.set(func() { delete(d.names, 1000); d.err = nil })
		wantNow(t, n, 1000, "alicia")
		synctest.Wait()
		wantOf(t, n, 1000, "1000", 0) // the user is gone
	})
}

func TestFailuresAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{names: map[int]string{1000: "alice"}, err: errors.New("the server is down")}
		n := New(d.lookup, limit)
		wantOf(t, n, 1000, "1000", 0)
		d.set(func() { d.err = nil })
		wantOf(t, n, 1000, "1000", 0)
		time.Sleep(retryAfter)
		wantOf(t, n, 1000, "alice", 0)
	})
}

func TestNamesThatAreNotBelieved(t *testing.T) {
	long := make([]byte, maxLength+1)
	for i := range long {
		long[i] = 'a'
	}
	for _, name := range []string{"", "a\nb", "a\x1b[2J", "a\x00", "\xff", " root", "root ", "a\u202eb", string(long), "0", "1001"} {
		n := New(func(int) (string, error) { return name, nil }, time.Minute)
		if got := n.Of(1000); got != "1000" {
			t.Errorf("a user called %q is shown as %q", name, got)
		}
	}
	for _, name := range []string{"alice", `CORP\alice b`, "alice@corp.example", "jürgen", "1000", "u1001"} {
		n := New(func(int) (string, error) { return name, nil }, time.Minute)
		if got := n.Of(1000); got != name {
			t.Errorf("a user called %q is shown as %q", name, got)
		}
	}
}

func TestManyUsers(t *testing.T) {
	n := New(func(uid int) (string, error) { return "u" + strconv.Itoa(uid), nil }, time.Minute)
	for uid := range maxKnown + 100 {
		if got := n.Of(uid); got != "u"+strconv.Itoa(uid) {
			t.Fatalf("Of(%d) = %q", uid, got)
		}
	}
	if len(n.known) > maxKnown {
		t.Errorf("%d users are remembered, want at most %d", len(n.known), maxKnown)
	}
}

// What it costs to get to know one more user than are kept.
func BenchmarkNewcomer(b *testing.B) {
	n := New(func(uid int) (string, error) { return "u" + strconv.Itoa(uid), nil }, time.Minute)
	for uid := range maxKnown {
		n.Of(uid)
	}
	uid := maxKnown
	for b.Loop() {
		uid++
		n.Of(uid)
	}
}

// A number is settled once the user database has said that it has no name.
func TestSettled(t *testing.T) {
	answers := map[int]error{1: nil, 2: user.UnknownUserIdError(2), 3: errors.New("the directory is away")}
	n := New(func(uid int) (string, error) { return "ada", answers[uid] }, time.Minute)
	for uid, want := range map[int]bool{1: true, 2: true, 3: false, 4: false} {
		if uid != 4 {
			n.Of(uid)
		}
		if got := n.Settled(uid); got != want {
			t.Errorf("user %d is settled: %v", uid, got)
		}
	}
}
