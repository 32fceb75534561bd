package libprobe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process/child"
	berthpy "github.com/berth-gpu/berth/python"
)

// maxAnswer is the largest answer, in bytes: far more than a library needs.
const maxAnswer = 1 << 20

// question says which interpreter to ask, and how.
type question struct {
	prober      Prober
	interpreter string // path
	env         []string
}

// ask runs one child and reads its answer into answer. If the child fails after
// it wrote something, ask fills answer and returns an error too.
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
	last := &child.Tail{Limit: 4 << 10}
	cmd := exec.Command(q.interpreter, "-c", berthpy.Probe, said, strconv.Itoa(int(limit.Seconds())+5), library)
	cmd.Env, cmd.Dir, cmd.Stderr = q.env, folder, last
	c, err := child.Start(cmd, child.How{})
	if err != nil {
		return fail(ErrNoInterpreter, err.Error())
	}
	late := q.await(ctx, c, library, limit)
	ended := c.Wait()
	answered := read(said, answer)
	switch {
	case ctx.Err() != nil:
		return fail(ctx.Err(), "")
	case late:
		return fail(ErrTimeLimit, "the limit is "+limit.String())
	case answered == nil && ended == nil:
		return nil
	case child.KilledBy(ended) != 0:
		return fail(ErrCrashed, fate(ended)+words(last))
	case ended != nil:
		return fail(ErrNoAnswer, fate(ended)+words(last))
	}
	return fail(ErrNoAnswer, answered.Error()+words(last))
}

// await waits until the child has ended, and kills it when its time is over. It
// reports whether the time was over.
func (q question) await(ctx context.Context, c *child.Child, library string, limit time.Duration) (late bool) {
	var over <-chan time.Time
	if q.prober.expiry != nil {
		over = q.prober.expiry(library)
	} else {
		over = time.After(limit)
	}
	select {
	case <-c.Ended():
	case <-over:
		late = true
	case <-ctx.Done():
	}
	c.Kill()
	return late
}

// read reads the answer that a child wrote.
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
		return fmt.Errorf("its answer is not valid (%w)", err)
	}
	return nil
}

// fate returns how a child ended.
func fate(err error) string {
	if signal := child.KilledBy(err); signal != 0 {
		return "killed by " + unix.SignalName(signal)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err.Error()
	}
	return "it ended with status " + strconv.Itoa(exit.ExitCode())
}

// words returns the last line that a child wrote, as the end of a sentence.
func words(said *child.Tail) string {
	lines := said.Lines(1)
	if len(lines) == 0 {
		return ""
	}
	line := strings.TrimSpace(lines[0])
	return "; its last words: " + line[max(0, len(line)-300):]
}
