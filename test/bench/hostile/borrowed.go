package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// borrowed lets the daemon, which is root, signal what the attacker may not: a
// process of root below the attacker's lease, as sudo leaves it there. The attacker
// gives the lease a time limit, holds it to a share, and parks it.
func borrowed(ctx context.Context, a *arena) (v verdict, err error) {
	rooted := filepath.Join(a.dir, "rooted")
	if err := errors.Join(copyProgram(a.self, rooted), os.Chmod(rooted, 0o755|os.ModeSetuid)); err != nil {
		return v, err
	}
	d, err := a.serve(ctx, setup{guests: true, config: "gpu: {monitor_interval: 0.2}\noptimization: {deallocation_timeout: 1}"})
	if err != nil {
		return v, err
	}
	for _, each := range []struct {
		name string
		body string // of the request for the lease, beside its holder
		act  func(context.Context, *arena, *daemon, *verdict, pair) error
	}{
		{"limited", `,"time_limit_seconds":1`, overrun},
		{"paced", "", paceBorrowed},
		{"parked", "", parkBorrowed},
	} {
		var got pair
		holder, err := a.act(ctx, attacker, 0, "borrow", askBorrow{d.socket, rooted, each.name, each.body}, &got)
		if err != nil {
			return v, err
		}
		if got.Child == 0 {
			v.skipped = "a set-user-id program does not become root in " + a.dir
			return v, nil
		}
		if err := each.act(ctx, a, d, &v, got); err != nil {
			return v, err
		}
		if !runs(got.Child) {
			v.gain("%s: the daemon ended process %d of root", each.name, got.Child)
		}
		holder.kill()
		events, _, err := d.events(ctx)
		if err != nil {
			return v, err
		}
		named := slices.ContainsFunc(events, func(e gpu.Event) bool {
			return e.Lease == each.name && strings.Contains(e.Text, fmt.Sprint(got.Child))
		})
		if !named && each.name != "parked" { // who parks is answered instead
			v.gain("%s: no event names process %d of root, which was left alone or not", each.name, got.Child)
		}
	}
	return v, nil
}

// overrun waits until the time limit has ended the lease and the holder, and until
// the daemon has sent its last signal.
func overrun(ctx context.Context, _ *arena, d *daemon, _ *verdict, p pair) error {
	ended := eventually(time.Minute, func() bool {
		leases, err := d.leases(ctx)
		_, there := leases["limited"]
		return err == nil && !there && !runs(p.Holder)
	})
	if !ended {
		return errors.New("the time limit did not end the attacker's own lease")
	}
	eventually(3*time.Second, func() bool { return !runs(p.Child) })
	return nil
}

// paceBorrowed looks whether root's process is stopped with those of the attacker.
func paceBorrowed(ctx context.Context, a *arena, d *daemon, v *verdict, p pair) error {
	got, err := a.calls(ctx, attacker, d.socket, call{Method: "POST", Path: "/api/leases/paced/pace", Body: `{"share":0.05}`})
	if err != nil || got[0].Status != 200 {
		return fmt.Errorf("the attacker cannot pace a lease of their own: %v %w", got, err)
	}
	own, theirs := 0, 0
	eventually(time.Minute, func() bool {
		if stoppedNow(p.Holder) {
			own++
		}
		if stoppedNow(p.Child) {
			theirs++
		}
		return own >= 20 || theirs > 0
	})
	if theirs > 0 {
		v.gain("paced: the daemon stopped process %d of root", p.Child)
	} else if own == 0 {
		return errors.New("the attacker's own process was never stopped")
	}
	return nil
}

// parkBorrowed parks a lease whose device only root's process uses.
func parkBorrowed(ctx context.Context, a *arena, d *daemon, v *verdict, p pair) error {
	if err := d.guest("SIM-h200-0", p.Child, 0, 64); err != nil {
		return err
	}
	seen := eventually(time.Minute, func() bool {
		leases, err := d.leases(ctx)
		return err == nil && len(leases["parked"].Processes) > 0
	})
	if !seen {
		return errors.New("the daemon does not see root's process below the lease")
	}
	got, err := a.calls(ctx, attacker, d.socket, call{Method: "POST", Path: "/api/leases/parked/park", Body: `{}`})
	if err != nil {
		return err
	}
	if got[0].Status != 409 {
		v.gain("parked: the daemon parked process %d of root: %d %s", p.Child, got[0].Status, got[0].Body)
	}
	return nil
}

// stoppedNow reports whether a signal has stopped a process.
func stoppedNow(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	end := bytes.LastIndexByte(text, ')')
	return err == nil && end > 0 && bytes.HasPrefix(text[end:], []byte(") T"))
}

// askBorrow asks for a lease with a process of root below its holder.
type askBorrow struct {
	Door         door
	Rooted       string // a set-user-id copy of this program
	ID, AlsoSays string
}

// borrow starts a set-user-id program, and leases for itself.
func borrow(ctx context.Context, in json.RawMessage, say func(any)) error {
	var asked askBorrow
	if err := json.Unmarshal(in, &asked); err != nil {
		return err
	}
	cmd := exec.Command(asked.Rooted, childCommand, "rooted")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	p := pair{Holder: os.Getpid()}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line == "root\n" {
		p.Child = cmd.Process.Pid
	}
	c := call{Method: "POST", Path: "/api/leases", Body: fmt.Sprintf(`{"id":%q,"memory_mb":100,"slots":0,"gpu":"SIM-h200-0","binding":"process","pid":%d%s}`, asked.ID, p.Holder, asked.AlsoSays)}
	if got, err := c.make(ctx, asked.Door, asked.Door.client(10*time.Second)); err != nil || got.Status != 201 {
		return fmt.Errorf("the lease: %d %s %w", got.Status, got.Body, err)
	}
	say(p)
	<-ctx.Done()
	return nil
}

// becomeRoot is root's program: it takes all the ids that its file gives, and
// stays for a while.
func becomeRoot() error {
	if err := syscall.Setresuid(0, 0, 0); err != nil {
		fmt.Println(err)
		return nil
	}
	fmt.Println("root")
	time.Sleep(2 * time.Minute)
	return nil
}
