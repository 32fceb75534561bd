package hooks

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
)

// shell returns a command that runs a script; it finds a folder of the test's in
// $1.
func shell(t *testing.T, script string) ([]string, string) {
	dir := t.TempDir()
	return []string{"sh", "-c", script, "sh", dir}, dir
}

// runCommand runs a command for an event, and returns what it wrote.
func runCommand(ctx context.Context, command []string, e gpu.Event) (output []string, err error) {
	c := Commands{Environ: []string{"PATH=/usr/bin:/bin"}, Output: func(_, text string) { output = append(output, text) }}
	body, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	err = c.Call("mail", command)(ctx, e, body)
	return output, err
}

// pipe makes a named pipe and opens it when the function it returns is called,
// which waits for somebody to write. Reading it gives the end only when every
// process has let go of it.
func pipe(t *testing.T, dir string) func() *bufio.Reader {
	t.Helper()
	path := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() *bufio.Reader {
		t.Helper()
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		return bufio.NewReader(file)
	}
}

func TestCommand(t *testing.T) {
	command, dir := shell(t, `{ cat; echo "$BERTH_EVENT_CODE $BERTH_EVENT_ALSO $BERTH_EVENT_SEVERITY $BERTH_EVENT_GPU $BERTH_EVENT_LEASE $BERTH_EVENT_TEXT"; } > "$1/new"; mv "$1/new" "$1/got"; echo done`)
	e := event(7, gpu.EventStateChange, `hot; rm -rf "$1"`)
	e.Also = []gpu.EventCode{gpu.EventThrottle, gpu.EventCritical}
	output, err := runCommand(t.Context(), command, e)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "got"))
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(e)
	if diff := cmp.Diff(string(want)+"\nstate_change throttle critical critical GPU-a job hot; rm -rf \"$1\"\n", string(got)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"done"}, output); diff != "" {
		t.Error(diff)
	}
}

// A command that hangs is killed with all that it started.
func TestCommandThatHangs(t *testing.T) {
	command, dir := shell(t, `exec > "$1/pipe"; sh -c 'echo child; sleep 1000; echo late' & wait; echo late`)
	open := pipe(t, dir)
	ctx, limit := context.WithCancel(t.Context())
	defer limit()
	ended := make(chan error, 1)
	go func() {
		_, err := runCommand(ctx, command, gpu.Event{})
		ended <- err
	}()
	said := open()
	if got, err := said.ReadString('\n'); got != "child\n" || err != nil {
		t.Fatalf("the command wrote %q (%v)", got, err)
	}
	limit()
	if rest, err := io.ReadAll(said); len(rest) != 0 || err != nil {
		t.Errorf("then it wrote %q (%v)", rest, err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "longer than timeout_seconds") {
		t.Errorf("it ended with %v", err)
	}
}

// What a command leaves behind does not outlive it, and what it did counts.
func TestCommandThatLeavesSomethingBehind(t *testing.T) {
	command, dir := shell(t, `exec > "$1/pipe"; echo begun; sleep 1000 & exit 0`)
	open := pipe(t, dir)
	ended := make(chan error, 1)
	go func() {
		_, err := runCommand(t.Context(), command, gpu.Event{})
		ended <- err
	}()
	if got, err := io.ReadAll(open()); string(got) != "begun\n" || err != nil {
		t.Errorf("the command wrote %q (%v)", got, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestFailuresOfCommands(t *testing.T) {
	for name, c := range map[string]struct {
		command      []string
		told, output string
	}{
		"exit status":     {[]string{"sh", "-c", "echo no mail today >&2; exit 3"}, "exit status 3", "no mail today"},
		"no such program": {[]string{"/nonexistent/mail"}, "no such file", ""},
		"not in the path": {[]string{"no-such-program-of-berth"}, "executable file not found", ""},
		"killed":          {[]string{"sh", "-c", "kill -9 $$"}, "killed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := runCommand(t.Context(), c.command, gpu.Event{})
			if err == nil || !strings.Contains(err.Error(), c.told) || strings.Join(output, "") != c.output {
				t.Errorf("%v, and it wrote %q", err, output)
			}
		})
	}
}

// A command that the machine cannot start now has done nothing, so it is tried again, also
// by the next daemon.
func TestCommandThatCannotBeStarted(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	_, err := runCommand(t.Context(), []string{"/bin/true"}, gpu.Event{})
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if may := (*passing)(nil); !errors.As(err, &may) {
		t.Errorf("without a free descriptor: %v, which is final", err)
	}
	if _, err := runCommand(t.Context(), []string{"/nonexistent/mail"}, gpu.Event{}); errors.As(err, new(*passing)) {
		t.Errorf("without a program: %v, which is not final", err)
	}
	synctest.Test(t, func(t *testing.T) {
		hs := New(Options{
			Hooks: []Hook{{Name: "mail", Command: []string{"mail"}, Severity: gpu.Note, Timeout: time.Minute}},
			Call:  func(Hook) Call { return func(context.Context, gpu.Event, []byte) error { return &passing{error: err} } },
			Event: func(gpu.Event) {}, Count: func(string, Status) {},
		})
		ctx, cancel := context.WithCancel(t.Context())
		q := hs.queues[0]
		q.waiting.add(event(7, gpu.EventCritical, "hot"))
		ended := make(chan struct{})
		go func() { defer close(ended); q.run(ctx, ctx) }()
		synctest.Wait()
		cancel()
		<-ended
		if left := q.waiting.left(); left.Current == nil || left.Current.ID != 7 {
			t.Errorf("left for the next daemon: %+v", left)
		}
	})
}

func TestMuchOutputIsCut(t *testing.T) {
	output, err := runCommand(t.Context(), []string{"sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x"}, gpu.Event{})
	if want := strings.Repeat("x", outputKept) + " … and more"; err != nil || len(output) != 1 || output[0] != want {
		t.Errorf("%v, and %d bytes were passed on", err, len(strings.Join(output, "")))
	}
}
