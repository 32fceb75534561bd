package ward

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tended is a ward that runs in a test, with the states that it told.
type tended struct {
	*Ward
	states chan State
	stop   func()
}

func tend(t *testing.T, folder string, p *Program) *tended {
	t.Helper()
	states := make(chan State, 1000)
	w := &tended{Ward: New(Options{Folder: folder, Name: "front", Changed: func(s State) { states <- s }}), states: states}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	w.Want(p)
	go func() { defer close(over); w.Run(ctx) }()
	w.stop = func() { cancel(); <-over }
	t.Cleanup(w.stop)
	return w
}

// until waits for a state.
func (w *tended) until(t *testing.T, what string, is func(State) bool) State {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case s := <-w.states:
			if is(s) {
				return s
			}
		case <-limit:
			t.Fatalf("it never came to %s; it is %+v", what, w.State())
		}
	}
}

func runs(s State) bool { return s.Running }

// pid returns the process that holds the lock.
func pid(t *testing.T, folder string) int {
	t.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		text, err := os.ReadFile(filepath.Join(folder, "front.lock"))
		var r record
		if err == nil && json.Unmarshal(text, &r) == nil && r.PID != 0 {
			return r.PID
		}
		syscall.Select(0, nil, nil, nil, &syscall.Timeval{Usec: 1000})
	}
	t.Fatal("nothing holds the lock")
	return 0
}

// lives is a program that runs until it is told to end, and says where it has ended well.
func lives(folder, digest string) *Program {
	return &Program{Command: []string{"/bin/sh", "-c", `trap 'echo ended >> "$0"; exit 0' TERM; echo began >> "$0"; while :; do sleep 0.1; done`, filepath.Join(folder, "told")}, Digest: digest}
}

// whileTold waits until a file has a line so often.
func whileTold(t *testing.T, folder, line string, times int) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		text, _ := os.ReadFile(filepath.Join(folder, "told"))
		if strings.Count(string(text), line+"\n") >= times {
			return
		}
		syscall.Select(0, nil, nil, nil, &syscall.Timeval{Usec: 1000})
	}
	t.Fatalf("it never said %s %d times", line, times)
}

func end(t *testing.T, folder string) {
	t.Cleanup(func() {
		text, _ := os.ReadFile(filepath.Join(folder, "front.lock"))
		var r record
		if json.Unmarshal(text, &r) == nil && r.PID != 0 {
			_ = syscall.Kill(r.PID, syscall.SIGKILL)
		}
	})
}

func TestItComesBack(t *testing.T) {
	folder := t.TempDir()
	end(t, folder)
	w := tend(t, folder, lives(folder, ""))
	w.until(t, "running", runs)
	whileTold(t, folder, "began", 1)
	first := pid(t, folder)
	_ = syscall.Kill(first, syscall.SIGKILL)
	if s := w.until(t, "its end", func(s State) bool { return !s.Running }); !strings.Contains(s.Why, "killed") {
		t.Errorf("it ended because %q", s.Why)
	}
	w.until(t, "running again", runs)
	whileTold(t, folder, "began", 2)
	if again := pid(t, folder); again == first {
		t.Error("it is the same process")
	}
}

// A ward that ends leaves its program alone, and the next one finds it.
func TestTheNextFindsIt(t *testing.T) {
	folder := t.TempDir()
	end(t, folder)
	w := tend(t, folder, lives(folder, ""))
	w.until(t, "running", runs)
	whileTold(t, folder, "began", 1)
	first := pid(t, folder)
	w.stop()
	if err := syscall.Kill(first, 0); err != nil {
		t.Fatalf("the program has ended with its ward: %v", err)
	}
	next := tend(t, folder, lives(folder, ""))
	next.until(t, "running", runs)
	if again := pid(t, folder); again != first {
		t.Errorf("process %d was started beside %d", again, first)
	}
	_ = syscall.Kill(first, syscall.SIGKILL)
	next.until(t, "its end", func(s State) bool { return !s.Running })
	next.until(t, "running again", runs)
	whileTold(t, folder, "began", 2)
}

// One that has to run in another way is told to end, and the next one does not wait.
func TestItIsReplaced(t *testing.T) {
	folder := t.TempDir()
	end(t, folder)
	w := tend(t, folder, lives(folder, "1"))
	w.until(t, "running", runs)
	whileTold(t, folder, "began", 1)
	first := pid(t, folder)
	w.Want(lives(folder, "2"))
	whileTold(t, folder, "ended", 1)
	whileTold(t, folder, "began", 2)
	if again := pid(t, folder); again == first {
		t.Error("it is the same process")
	}
	w.Want(nil)
	whileTold(t, folder, "ended", 2)
}

// A program that keeps ending says why, and is started ever more slowly.
func TestItKeepsEnding(t *testing.T) {
	folder := t.TempDir()
	w := tend(t, folder, &Program{Command: []string{"/bin/sh", "-c", "echo starting; echo the address is taken >&2; exit 3"}})
	s := w.until(t, "its third end", func(s State) bool { return s.Failed >= 3 })
	if !strings.Contains(s.Why, "exit status 3: the address is taken") {
		t.Errorf("it ended because %q", s.Why)
	}
}

// The program cannot write who it is into the lock that it inherits.
func TestItCannotWriteToTheLock(t *testing.T) {
	w := tend(t, t.TempDir(), &Program{Command: []string{"/bin/sh", "-c", "echo forged >&3 || echo refused; exit 1"}})
	if s := w.until(t, "its end", func(s State) bool { return s.Failed >= 1 }); !strings.HasSuffix(s.Why, ": refused") {
		t.Errorf("it ended because %q", s.Why)
	}
}

func TestItCannotBegin(t *testing.T) {
	w := tend(t, t.TempDir(), &Program{Command: []string{"/nonexistent/program"}})
	if s := w.until(t, "its second failure", func(s State) bool { return s.Failed >= 2 }); !strings.Contains(s.Why, "/nonexistent/program") {
		t.Errorf("it did not begin because %q", s.Why)
	}
}

func TestItRunsAsItsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	folder := t.TempDir()
	w := tend(t, folder, &Program{Command: []string{"/bin/sh", "-c", "id -u; id -G; exit 1"}, User: &User{UID: 4711, GID: 4712}})
	w.until(t, "its end", func(s State) bool { return s.Failed >= 1 })
	text, err := os.ReadFile(filepath.Join(folder, "front.log"))
	if err != nil || !strings.HasPrefix(string(text), strconv.Itoa(4711)+"\n"+strconv.Itoa(4712)+"\n") {
		t.Errorf("it has the user and the groups %q, %v", text, err)
	}
}

// Until a ward is told what has to run, it leaves alone what does.
func TestItIsLeftAloneUntilSomebodySays(t *testing.T) {
	folder := t.TempDir()
	end(t, folder)
	w := tend(t, folder, lives(folder, ""))
	w.until(t, "running", runs)
	whileTold(t, folder, "began", 1)
	first := pid(t, folder)
	w.stop()
	states := make(chan State, 1000)
	next := New(Options{Folder: folder, Name: "front", Changed: func(s State) { states <- s }})
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() { defer close(over); next.Run(ctx) }()
	defer func() { cancel(); <-over }()
	next.Want(lives(folder, ""))
	if s := <-states; !s.Running || pid(t, folder) != first {
		t.Errorf("it is %+v, process %d; want %d", s, pid(t, folder), first)
	}
	next.Want(nil)
	whileTold(t, folder, "ended", 1)
}

// A program whose ward was killed before it wrote down which process that is, is found by
// the lock that it holds, and told to end like any other.
func TestItIsFoundByItsLock(t *testing.T) {
	folder := t.TempDir()
	end(t, folder)
	w := tend(t, folder, lives(folder, "1"))
	w.until(t, "running", runs)
	whileTold(t, folder, "began", 1)
	w.stop()
	if err := os.WriteFile(filepath.Join(folder, "front.lock"), []byte("not a reco"), 0o600); err != nil {
		t.Fatal(err)
	}
	tend(t, folder, lives(folder, "1"))
	whileTold(t, folder, "ended", 1)
	whileTold(t, folder, "began", 2)
}
