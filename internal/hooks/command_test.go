package hooks

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
)

// shell is a hook that runs a script; it finds a folder of the test's in $1.
func shell(t *testing.T, script string) (Hook, string) {
	dir := t.TempDir()
	return Hook{Name: "mail", Command: []string{"sh", "-c", script, "sh", dir}}, dir
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
	hook, dir := shell(t, `{ cat; echo "$BERTH_EVENT_CODE $BERTH_EVENT_SEVERITY $BERTH_EVENT_GPU $BERTH_EVENT_LEASE $BERTH_EVENT_TEXT"; } > "$1/new"; mv "$1/new" "$1/got"; echo done`)
	b := run(t, 16, nil, hook)
	b.publish(gpu.EventCritical, gpu.Serious, `hot; rm -rf "$1"`)
	b.settle(1)
	b.stop()
	got, err := os.ReadFile(filepath.Join(dir, "got"))
	if err != nil {
		t.Fatal(err)
	}
	kept, _ := b.log.Kept(0)
	want, _ := json.Marshal(kept[0])
	if diff := cmp.Diff(string(want)+"\ncritical critical GPU-a job hot; rm -rf \"$1\"\n", string(got)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"done"}, b.output); diff != "" || b.counts[Delivered] != 1 {
		t.Errorf("counted %v; %s", b.counts, diff)
	}
}

func TestCommandsRunOneAfterTheOther(t *testing.T) {
	hook, dir := shell(t, `echo "begin $BERTH_EVENT_TEXT" >> "$1/got"; echo "end $BERTH_EVENT_TEXT" >> "$1/got"`)
	b := run(t, 16, nil, hook)
	want := ""
	for _, text := range []string{"a", "b", "c", "d"} {
		b.publish(gpu.EventCritical, gpu.Serious, text)
		want += "begin " + text + "\nend " + text + "\n"
	}
	b.settle(4)
	b.stop()
	got, err := os.ReadFile(filepath.Join(dir, "got"))
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

// A command that hangs is killed with all that it started.
func TestCommandThatHangs(t *testing.T) {
	hook, dir := shell(t, `exec > "$1/pipe"; sh -c 'echo child; sleep 1000; echo late' & wait; echo late`)
	open := pipe(t, dir)
	ctx, limit := context.WithCancel(t.Context())
	defer limit()
	ended := make(chan error, 1)
	go func() {
		ended <- (&command{hook: hook, environ: []string{"PATH=/usr/bin:/bin"}}).run(ctx, gpu.Event{}, nil)
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
	hook, dir := shell(t, `exec > "$1/pipe"; echo begun; sleep 1000 & exit 0`)
	open := pipe(t, dir)
	b := run(t, 16, nil, hook)
	b.publish(gpu.EventCritical, gpu.Serious, "hot")
	if got, err := io.ReadAll(open()); string(got) != "begun\n" || err != nil {
		t.Errorf("the command wrote %q (%v)", got, err)
	}
	b.settle(1)
	b.stop()
	if b.counts[Delivered] != 1 {
		t.Errorf("counted %v", b.counts)
	}
}

func TestCommandThatFails(t *testing.T) {
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
			b := run(t, 16, nil, Hook{Name: "mail", Command: c.command})
			b.publish(gpu.EventCritical, gpu.Serious, "hot")
			b.publish(gpu.EventCritical, gpu.Serious, "hot")
			b.settle(2)
			b.stop()
			if told := b.texts(); len(told) != 1 || !strings.Contains(told[0], c.told) {
				t.Errorf("told %q", told)
			}
			if b.counts[Failed] != 2 || !strings.HasPrefix(strings.Join(b.output, ""), c.output) {
				t.Errorf("counted %v, wrote %q", b.counts, b.output)
			}
		})
	}
}

func TestMuchOutputIsCut(t *testing.T) {
	b := run(t, 16, nil, Hook{Name: "mail", Command: []string{"sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x"}})
	b.publish(gpu.EventCritical, gpu.Serious, "hot")
	b.settle(1)
	b.stop()
	if want := strings.Repeat("x", outputKept) + " … and more"; len(b.output) != 1 || b.output[0] != want {
		t.Errorf("%d bytes were passed on", len(strings.Join(b.output, "")))
	}
}
