package libprobe

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

//go:embed probe.py
var script string

// maxAnswer is far more than a library has to say.
const maxAnswer = 1 << 20

// question is whom to ask, and how.
type question struct {
	prober      Prober
	interpreter string // path
	env         []string
}

// ask runs one child and reads its answer into answer. When the child fails
// after it has said something, answer is filled and there is an error too.
func (q question) ask(ctx context.Context, library string, answer any) error {
	fail := func(err error, detail string) error {
		return &Error{Interpreter: q.interpreter, Library: library, Err: err, Detail: detail}
	}
	folder, err := os.MkdirTemp("", "berth-probe-")
	if err != nil {
		return fail(err, "")
	}
	defer func() { _ = os.RemoveAll(folder) }()
	said := filepath.Join(folder, "answer.json")

	limit := cmp.Or(q.prober.Limit, DefaultLimit)
	var last tail
	cmd := exec.Command(q.interpreter, "-c", script, said, strconv.Itoa(int(limit.Seconds())+5), library)
	cmd.Env, cmd.Dir, cmd.Stderr = q.env, folder, &last
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second // for a grandchild that left the group and holds stderr
	if err := cmd.Start(); err != nil {
		return fail(ErrNoInterpreter, err.Error())
	}
	late := q.await(ctx, cmd.Process.Pid, library, limit)
	ended := cmd.Wait()
	answered := read(said, answer)
	switch {
	case ctx.Err() != nil:
		return fail(ctx.Err(), "")
	case late:
		return fail(ErrTimeLimit, "the limit is "+limit.String())
	case answered == nil && ended == nil:
		return nil
	case signalled(ended):
		return fail(ErrCrashed, fate(ended)+last.words())
	case ended != nil && !errors.Is(ended, exec.ErrWaitDelay):
		return fail(ErrNoAnswer, fate(ended)+last.words())
	case answered != nil:
		return fail(ErrNoAnswer, answered.Error()+last.words())
	}
	return nil
}

// await waits until the child has ended or its time is over, and then kills
// whatever is left of its process group. The child is not reaped before that,
// so its number cannot belong to anybody else. It reports whether the time was
// over.
func (q question) await(ctx context.Context, pid int, library string, limit time.Duration) (late bool) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
			continue
		}
	}()
	var over <-chan time.Time
	if q.prober.expiry != nil {
		over = q.prober.expiry(library)
	} else {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ended:
	case <-over:
		late = true
	case <-ctx.Done():
	}
	_ = unix.Kill(-pid, unix.SIGKILL) // there may be nobody left
	<-ended
	return late
}

// read takes the answer that a child left.
func read(path string, answer any) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return errors.New("it ended without one")
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxAnswer))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("what it wrote is rubbish (%w)", err)
	}
	return nil
}

func signalled(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled()
}

// fate is how a child ended, in words.
func fate(err error) string {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err.Error()
	}
	if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
		return "killed by " + unix.SignalName(status.Signal())
	}
	return "it ended with status " + strconv.Itoa(exit.ExitCode())
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	const keep = 4 << 10
	t.text = append(t.text, p[max(0, len(p)-keep):]...)
	t.text = t.text[max(0, len(t.text)-keep):]
	return len(p), nil
}

// words is the last line, as the end of a sentence.
func (t *tail) words() string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(t.text), "?")), "\n")
	line := strings.TrimSpace(lines[len(lines)-1])
	if line == "" {
		return ""
	}
	return "; its last words: " + line[max(0, len(line)-300):]
}
