package minder

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// log writes a log into the home of the user.
func (w *world) log(text string) string {
	w.Helper()
	path := filepath.Join(w.home, "a.log")
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chown(path, w.uid, -1)); err != nil {
		w.Fatal(err)
	}
	return path
}

func TestReadLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("x", 1<<20)
	for name, test := range map[string]struct {
		text   string
		r      Reading
		want   string
		offset int64
	}{
		"all of it":              {"one\ntwo\n", Reading{}, "one\ntwo\n", 0},
		"empty":                  {"", Reading{Lines: 3}, "", 0},
		"the last line":          {"one\ntwo\n", Reading{Lines: 1}, "two\n", 4},
		"an unfinished line":     {"one\ntwo\nthr", Reading{Lines: 2}, "two\nthr", 4},
		"more lines than it has": {"one\ntwo\n", Reading{Lines: 9}, "one\ntwo\n", 0},
		"across blocks":          {long[:70_000] + "\n" + long[:70_000] + "\n", Reading{Lines: 1}, long[:70_000] + "\n", 70_001},
		"from an offset":         {"one\ntwo\n", Reading{Offset: 4}, "two\n", 4},
		"behind its end":         {"one\n", Reading{Offset: 400}, "", 4},
		"a part":                 {"one\ntwo\n", Reading{Offset: 4, Most: 2}, "tw", 4},
		"the last bytes":         {"one\ntwo\n", Reading{Most: 2}, "o\n", 6},
		"lines in few bytes":     {"one\ntwo\n", Reading{Lines: 2, Most: 5}, "\ntwo\n", 3},
		"many blocks":            {"begin" + long, Reading{}, "begin" + long, 0},
		"one line without end":   {"begin" + long, Reading{Lines: 1, Most: 1 << 20}, long, 5},
	} {
		r := test.r
		r.User, r.UID, r.Path = w.name, w.uid, w.log(test.text)
		var out bytes.Buffer
		offset := int64(-1)
		err := w.ReadLog(t.Context(), r, nil, func(at int64) { offset = at }, &out)
		if err != nil || out.String() != test.want || offset != test.offset {
			t.Errorf("%s: %d bytes from %d on, %v; want %d from %d on", name, out.Len(), offset, err, len(test.want), test.offset)
		}
	}
}

// The reader has the rights of the user and waits for nothing but a regular file.
func TestReadLogRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fifo := w.gate()
	link := filepath.Join(w.home, "link")
	if err := os.Symlink(filepath.Join(w.folder, "secret"), link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.folder, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		w.home + "/gone": "no such file or directory",
		fifo:             "is not a regular file",
		w.home:           "is not a regular file",
		"/dev/zero":      "is not a regular file",
		link:             "permission denied",
		"":               "no such file or directory",
	} {
		if path == link && os.Geteuid() != 0 {
			continue // the secret is the user's own
		}
		var out bytes.Buffer
		err := w.ReadLog(t.Context(), Reading{User: w.name, UID: w.uid, Path: path}, nil, nil, &out)
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, fs.ErrNotExist) != strings.HasPrefix(want, "no such") || out.Len() > 0 {
			t.Errorf("%s: %v, %q", path, err, out.String())
		}
	}
	var out bytes.Buffer
	if err := w.ReadLog(t.Context(), Reading{User: "no-such-user", UID: 4000000, Path: "/etc/passwd"}, nil, nil, &out); err == nil || out.Len() > 0 {
		t.Errorf("somebody who is not there reads %q, %v", out.String(), err)
	}
}

// A log is followed while it grows, after it was emptied, and to its end.
func TestFollowLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.log("one\ntwo\n")
	read, write := io.Pipe()
	until, result := make(chan struct{}), make(chan error, 1)
	go func() {
		result <- w.ReadLog(t.Context(), Reading{User: w.name, UID: w.uid, Path: path, Lines: 1, Follow: true}, until, nil, write)
		_ = write.Close()
	}()
	next := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(read, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v, want %q", got, err, want)
		}
	}
	add := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	next("two\n")
	add("three\n")
	next("three\n")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	add("four\n")
	next("four\n")
	add("five\n")
	close(until)
	next("five\n")
	if rest, err := io.ReadAll(read); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// A call that is cancelled, or whose caller has gone, does not wait.
func TestFollowingEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := Reading{User: w.name, UID: w.uid, Path: w.log("one\n"), Follow: true}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	err := w.ReadLog(ctx, r, nil, func(int64) { cancel(enough) }, io.Discard)
	if !errors.Is(err, enough) {
		t.Errorf("cancelled: %v", err)
	}
	read, write := io.Pipe()
	_ = read.Close()
	if err := w.ReadLog(t.Context(), r, nil, nil, write); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("nobody reads: %v", err)
	}
	for reads := true; reads; time.Sleep(10 * time.Millisecond) { // until both readers have ended
		w.mu.Lock()
		_, reads = w.reading[w.uid]
		w.mu.Unlock()
	}
	for range mostReading {
		if err := w.enterReading(w.uid); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.ReadLog(t.Context(), r, nil, nil, io.Discard); err == nil {
		t.Error("a user reads as many logs as there are")
	}
}

// A reader that its user has stopped is ended with the call, and counts until then.
func TestAStoppedReaderIsEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := Reading{User: w.name, UID: w.uid, Path: w.log("one\n"), Follow: true}
	ctx, cancel := context.WithCancel(t.Context())
	var reader process.ID
	table := process.Proc()
	_ = w.ReadLog(ctx, r, nil, func(int64) {
		for pid, each := range table.Family() {
			if each.Parent == os.Getpid() && slices.Contains(table.Said(each.ID).Command(), ReaderVerb) && holds(pid, r.Path) {
				reader = each.ID
			}
		}
		if err := table.Signal(kinship.Authority(), reader, unix.SIGSTOP); err != nil {
			t.Errorf("stop the reader: %v", err)
		}
		cancel()
	}, io.Discard)
	for table.Alive(reader) {
		runtime.Gosched()
	}
	for counts := 1; counts > 0; {
		w.mu.Lock()
		counts = w.reading[w.uid]
		w.mu.Unlock()
	}
}

// holds reports whether a process has a file open.
func holds(pid int, path string) bool {
	for file := range process.Proc().OpenFiles(pid) {
		if file == path {
			return true
		}
	}
	return false
}

// Somebody who reads logs without a pause is slowed down, and others are not.
func TestReadersHaveAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStarter(&Runs{}, Options{Program: "/nonexistent/program"})
		begun := time.Now()
		read := func(uid int) {
			if err := s.ReadLog(t.Context(), Reading{UID: uid}, nil, nil, io.Discard); !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		for range mostReading + readingsPerSecond {
			read(1)
		}
		if took := time.Since(begun).Round(time.Millisecond); took != time.Second {
			t.Errorf("it took %v, want 1s", took)
		}
		for range mostReading {
			read(2)
		}
		if took := time.Since(begun).Round(time.Millisecond); took != time.Second {
			t.Errorf("it took %v after somebody else had read, want 1s", took)
		}
	})
}

// The reader ends when the daemon does.
func TestReaderEndsWithTheDaemon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.log("one\n")
	ask, tell, _, err := w.startReader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(ask, `{"user":"`+w.name+`","uid":`+strconv.Itoa(w.uid)+`,"path":"`+path+`","follow":true}`+"\n"); err != nil {
		t.Fatal(err)
	}
	_ = ask.Close()
	said, err := io.ReadAll(tell)
	if want := "{\"offset\":0}\none\n"; err != nil || string(said) != want {
		t.Errorf("%q, %v", said, err)
	}
}
