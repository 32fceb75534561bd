package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// childCommand is the hidden command by which this program starts itself as
// another user.
const childCommand = "act"

// act does the work of a child process. It calls say once, when it is done or
// ready. ctx ends when the parent stops the process.
type act func(ctx context.Context, in json.RawMessage, say func(any)) error

func acts() map[string]act {
	return map[string]act{
		"asking":  askAgain,
		"beside":  besideAQuery,
		"calls":   makeCalls,
		"cycles":  cycleLeases,
		"hold":    holdConnections,
		"idle":    idle,
		"holders": startHolders,
		"borrow":  borrow,
		"deeper":  actInNamespace,
		"links":   prepareLinks,
		"pester":  pester,
		"batches": reportBatches,
		"load":    loadEverything,
		"spin":    spin,
		"honest":  measureHonest,
		"queue":   fillQueue,
		"rewrite": rewriteFile,
		"raw":     sendRaw,
		"crowd":   openCrowd,
		"waiters": loseWaiters,
		"double":  beImpostor,
		"files":   openFiles,
	}
}

// child runs an act: this program started itself as a child.
func child(args []string) error {
	switch {
	case args[0] == "masked" && len(args) > 2:
		return runMasked(args[1], args[2:])
	case args[0] == "rooted":
		return becomeRoot()
	case args[0] == "echo" && len(args) == 2:
		return beEcho(args[1])
	case args[0] == "worker":
		return echoRecords(len(args) > 1)
	}
	do, known := acts()[args[0]]
	if !known {
		return fmt.Errorf("unknown act %q", args[0])
	}
	in := bufio.NewReader(os.Stdin)
	asked, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	out := json.NewEncoder(os.Stdout)
	return do(ctx, asked, func(result any) { _ = out.Encode(result) })
}

// actor is a process that does an act.
type actor struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader

	wait func() error
}

// act starts a process of a user and returns when it has said something. act
// reads that into said. flags are those of clone(2).
func (a *arena) act(ctx context.Context, uid int, flags uintptr, name string, asked, said any) (*actor, error) {
	text, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	one := &actor{cmd: as(exec.Command(a.self, childCommand, name), uid, flags)}
	one.cmd.Dir = "/"
	one.cmd.Stderr = os.Stderr
	var out io.ReadCloser
	one.in, err = one.cmd.StdinPipe()
	if err == nil {
		out, err = one.cmd.StdoutPipe()
	}
	if err == nil {
		one.wait, err = a.start(one.cmd)
	}
	if err != nil {
		return nil, err
	}
	one.out = bufio.NewReader(out)
	stop := context.AfterFunc(ctx, one.kill)
	defer stop()
	_, _ = one.in.Write(append(text, '\n')) // if the process has ended, it says nothing below
	answer, err := one.out.ReadBytes('\n')
	if err != nil {
		one.kill()
		return one, fmt.Errorf("the act %s of uid %d: %w", name, uid, errors.Join(err, context.Cause(ctx), one.wait()))
	}
	if said == nil {
		return one, nil
	}
	return one, json.Unmarshal(answer, said)
}

// do runs an act until it ends.
func (a *arena) do(ctx context.Context, uid int, flags uintptr, name string, asked, said any) error {
	one, err := a.act(ctx, uid, flags, name, asked, said)
	if err != nil {
		return err
	}
	return one.end()
}

func (o *actor) pid() int { return o.cmd.Process.Pid }

// end asks an act to end, and kills it if that takes long.
func (o *actor) end() error {
	late := time.AfterFunc(5*time.Second, o.kill)
	defer late.Stop()
	_ = o.in.Close()
	return o.wait()
}

// kill kills an actor and everything that it started.
func (o *actor) kill() { _ = syscall.Kill(-o.cmd.Process.Pid, syscall.SIGKILL) }

// alive reports whether an actor still runs. A zombie does not.
func (o *actor) alive() bool { return runs(o.pid()) }

func runs(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	end := bytes.LastIndexByte(text, ')')
	return err == nil && end > 0 && !bytes.HasPrefix(text[end:], []byte(") Z"))
}

// idle does nothing until it is ended. The argument names the process.
func idle(ctx context.Context, in json.RawMessage, say func(any)) error {
	var name string
	if err := json.Unmarshal(in, &name); err != nil {
		return err
	}
	if name != "" {
		if err := os.WriteFile("/proc/self/comm", []byte(name), 0); err != nil {
			return err
		}
	}
	say(os.Getpid())
	<-ctx.Done()
	return nil
}

// spin uses as many processors as a hostile process does at full speed, with a
// thread for each, until it is ended.
func spin(ctx context.Context, _ json.RawMessage, say func(any)) error {
	threads := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(threads + 1) // one more thread waits for the end
	say("spinning")
	var all sync.WaitGroup
	for range threads {
		all.Go(func() {
			for n := 0; ; n++ {
				if n%(1<<20) == 0 && ctx.Err() != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return nil
}

// stop kills an actor and waits until it has ended.
func (o *actor) stop() {
	o.kill()
	_ = o.wait()
}
