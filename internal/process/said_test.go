package process

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A process whose environment cannot be read costs a moment, once, and one goroutine. What
// it says later counts.
func TestSilentProcess(t *testing.T) {
	table := written(t, "Uid:\t7\t7\t7\t7\n")
	id, err := table.Identify(7)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(table.file(7, "comm"), []byte("train\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(table.file(7, "environ"), 0o600); err != nil { // to open it waits for a writer
		t.Skip(err)
	}
	from := source{table.root, id}
	for range 3 {
		facts, said := table.Inspect(id)
		if !facts.Unread || facts.Origin.Lease != "" || !facts.UID.Known() || !slices.Equal(facts.Programs, []string{"train"}) || said.variables != nil {
			t.Errorf("it is %+v, and said %q", facts, said.variables)
		}
	}
	reading.mu.Lock()
	r, late := reading.by[from], reading.late
	reading.mu.Unlock()
	if r == nil || !r.late || late != 1 {
		t.Fatalf("its reader is %+v, and %d are late", r, late)
	}
	speak := func() {
		t.Helper()
		if err := os.WriteFile(table.file(7, "environ"), []byte("BERTH_LEASE=a\x00BERTH_FENCE=5\x00"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	speak()
	<-r.done
	if facts := table.Facts(id); facts.Unread || facts.Origin.Lease != "a" {
		t.Errorf("later it is %+v", facts)
	}
	speak()                                                  // to the reader that was started when it was asked
	if err := os.Remove(table.file(7, "stat")); err != nil { // it has ended
		t.Fatal(err)
	}
	for late > 0 {
		runtime.Gosched()
		reading.mu.Lock()
		late = reading.late
		reading.mu.Unlock()
	}
	_, _ = reading.giveUp(&reader{done: make(chan struct{})})
	reading.mu.Lock()
	defer reading.mu.Unlock()
	reading.count(&reader{}, -1)
	if reading.by[from] != nil {
		t.Error("its reader is kept after its end")
	}
}

// However many processes of a user cannot be read, those of others are.
func TestSilentProcessesOfOneUser(t *testing.T) {
	rs := readers{by: map[source]*reader{}, each: map[int]int{}, late: lateEach}
	rs.each[7] = lateEach
	table := written(t, "Uid:\t7\t7\t7\t7\n")
	id, err := table.Identify(7)
	if err = errors.Join(err, os.WriteFile(table.file(7, "environ"), []byte("BERTH_LEASE=a\x00"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[int]bool{7: false, 8: true} {
		if said, answered := rs.ask(source{table.root, id}, uid); answered != want || (said.variables["BERTH_LEASE"] == "a") != want {
			t.Errorf("a process of user %d answers %v: %v", uid, answered, said)
		}
	}
}

// A process in a user namespace is counted to the user who made that, whatever user ids it has
// there.
func TestWhoIsAccountableForAProcess(t *testing.T) {
	table, own := Proc(), os.Getuid()
	if uid := table.accountable(os.Getpid(), own); uid != own {
		t.Errorf("this process is counted to %d, want %d", uid, own)
	}
	inside := exec.Command("cat")
	inside.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	ends, err := inside.StdinPipe()
	if err == nil {
		err = inside.Start()
	}
	if err != nil {
		t.Skip(err) // not everybody may make one
	}
	defer func() { _ = ends.Close(); _ = inside.Wait() }()
	const other = 100_005 // as one of a range of user ids
	if uid := table.accountable(inside.Process.Pid, other); uid != own {
		t.Errorf("one in a namespace of this user is counted to %d, want %d", uid, own)
	}
}

// Whatever a process says of itself, and however much, berth reads and keeps only the
// beginning.
func TestWhatAProcessSaysIsBounded(t *testing.T) {
	const more = 8 << 20 // than anybody reads
	for name, read := range map[string]func(Table, ID) bool{
		"environ": func(t Table, id ID) bool {
			said := source{t.root, id}.read()
			lease, _ := said.Variable("BERTH_LEASE")
			return lease == "a" && len(said.variables) == 1
		},
		"cmdline": func(t Table, id ID) bool { return len(source{t.root, id}.read().command) == mostCommand },
		"status":  func(t Table, id ID) bool { u, err := t.UIDs(id.PID); return err == nil && u.Saved == 7 },
		"cgroup":  func(t Table, id ID) bool { return len(t.Cgroups(id.PID)) == 0 },
		"comm":    func(t Table, id ID) bool { return t.Name(id.PID) != "" },
	} {
		table := written(t, "Uid:\t7\t7\t7\t7\n")
		id, err := table.Identify(7)
		_ = os.Remove(table.file(7, name))
		if err = errors.Join(err, unix.Mkfifo(table.file(7, name), 0o600)); err != nil {
			t.Skip(err)
		}
		wrote := make(chan int64, 1)
		go func() {
			file, err := os.OpenFile(table.file(7, name), os.O_WRONLY, 0)
			if err != nil {
				wrote <- more
				return
			}
			defer file.Close()
			_, _ = file.WriteString("BERTH_LEASE=a\x00BERTH_LEASE=b\x00\nUid:\t7\t7\t7\t7\n")
			n, _ := io.Copy(file, io.LimitReader(zeros{}, more)) // until nobody reads any more
			wrote <- n
		}()
		if !read(table, id) {
			t.Errorf("%s was not read", name)
		}
		if n := <-wrote; n == more {
			t.Errorf("of %s berth has read %d MiB", name, n>>20)
		}
	}
}

type zeros struct{}

func (zeros) Read(to []byte) (int, error) { clear(to); return len(to), nil }
