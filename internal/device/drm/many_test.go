package drm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// However many files of cards processes have open, few enough are known in sum, and each
// process is seen with some. The list says that it is not whole.
func TestKnownFilesAreFewInSum(t *testing.T) {
	o := Root(t.TempDir()).Openers()
	const many = 4000
	for pid := range many {
		p := &opener{pid: pid, due: time.Now().Add(time.Hour)}
		for fd := range mostFiles {
			p.files = append(p.files, &openFile{fd: fmt.Sprint(fd), node: "/dev/dri/renderD128"})
		}
		o.known[pid] = p
	}
	o.shareOut()
	o.looked, o.whole = time.Now(), true
	open, complete, _ := o.find([]string{"/dev/dri/renderD128"}, o.looked)
	sum := 0
	for _, p := range open {
		sum += len(p.files)
	}
	if len(open) != many || sum > mostKnown+leastFiles*many || complete {
		t.Errorf("%d files of %d processes are known, complete: %v", sum, len(open), complete)
	}
}

// What is remembered of the past grows with the processes, not with their clients.
func TestUsageForgetsClients(t *testing.T) {
	var u Usage
	used := []Used{{PID: 1}}
	for id := range 1000 {
		used[0].Clients = append(used[0].Clients, Client{ID: uint64(id), Engines: map[string]Engine{"rcs": {}}})
	}
	now := time.Now()
	for range mostMoments {
		u.Add(now, used)
		now = now.Add(time.Second)
	}
	sum := len(u.clients)
	for _, m := range u.past {
		sum += len(m.work)
	}
	if sum > 1000+mostMoments {
		t.Errorf("%d counters are remembered", sum)
	}
}

// After a start, nobody may conclude from the list that a process is not there until all
// processes that were there have been looked through; those that come later delay nothing.
func TestListIsWholeAfterAllWereLookedThrough(t *testing.T) {
	root := t.TempDir()
	fill := func(first, many, files int) {
		for pid := range many {
			dir := filepath.Join(root, "proc", strconv.Itoa(first+pid), "fd")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for fd := range files {
				if err := os.Symlink("/dev/null", filepath.Join(dir, strconv.Itoa(fd))); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	fill(1000, mostLinks/100+4, 100)
	o, now := Root(root).Openers(), time.Now()
	o.began = now // as if the first look had read as much as it may
	for look, want := range []bool{false, true, true} {
		if _, complete, whole := o.Of(&Card{}, now); whole != want || complete != want {
			t.Errorf("look %d: complete %v, whole %v, want %v", look, complete, whole, want)
		}
		now = now.Add(time.Second)
		fill(2000+look, 1, 1)
	}
}

// The many processes of one user keep nobody else's from being looked at.
func TestUsersTakeTurns(t *testing.T) {
	var due []*opener
	for pid, uid := range []uint32{1, 1, 1, 2, 1, 2, 3} {
		due = append(due, &opener{pid: pid, uid: uid})
	}
	inTurn(due)
	var got []int
	for _, p := range due {
		got = append(got, p.pid)
	}
	if want := []int{0, 3, 6, 1, 5, 2, 4}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
}
