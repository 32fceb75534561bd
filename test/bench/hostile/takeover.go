package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/api"
)

// takeover makes calls that only administrators may make, and ends them in every
// way that may hide the caller. A gain shows in the configuration, in root's
// lease, in the attacker's priority, and in a process of another user that uses
// a device without a lease: foreign: kill would end that process.
func takeover(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{config: "gpu: {monitor_interval: 0.2}", guests: true})
	if err != nil {
		return v, err
	}
	bystander, err := a.act(ctx, victim, 0, "idle", "", nil)
	if err != nil {
		return v, err
	}
	if err := d.guest("SIM-h200-0", bystander.pid(), victim, 1000); err != nil {
		return v, err
	}
	t := &privileges{daemon: d, bystander: bystander, verdict: &v}
	if err := t.restore(ctx); err != nil {
		return v, err
	}
	times := a.size(20, 200)
	elsewhere := d.tcp
	elsewhere.From = "127.7.7.7"
	for _, door := range append(d.doors(), elsewhere) {
		for _, leave := range []finish{answered, half, closed, reset} {
			how := fmt.Sprintf("over %s, leaving by %q", door, leave)
			for _, asked := range [][]call{administering(leave, times), stopping(leave, times)} {
				if _, err := a.calls(ctx, attacker, door, asked...); err != nil {
					return v, err
				}
				if err := t.look(ctx, how); err != nil {
					return v, err
				}
			}
		}
		for range a.size(4, 20) { // each call ends its process, so each needs one
			for _, c := range append(administering(killed, 1), stopping(killed, 1)...) {
				_, _ = a.calls(ctx, attacker, door, c) // the process is killed before it says anything
			}
		}
		if err := t.look(ctx, fmt.Sprintf("over %s, from processes that end at once", door)); err != nil {
			return v, err
		}
	}
	return v, t.fromNamespaces(ctx, a)
}

// administering returns every call that only an administrator may make, except
// the stop of monitoring: without monitoring, foreign: kill ends nothing.
func administering(leave finish, times int) []call {
	return []call{
		{Method: "PUT", Path: "/api/gpu/config", Body: `{"foreign":"kill"}`, Finish: leave, Times: times},
		{Method: "DELETE", Path: "/api/leases/roots", Finish: leave, Times: times},
		{Method: "POST", Path: "/api/leases", Body: `{"id":"first-$N-$PID","memory_mb":1,"slots":0,"priority":1000,"timeout_seconds":0}`, Finish: leave, Times: min(times, 20)},
	}
}

func stopping(leave finish, times int) []call {
	return []call{{Method: "POST", Path: "/api/gpu/monitoring/stop", Finish: leave, Times: times}}
}

// privileges checks whether the attacker did what only administrators may do.
type privileges struct {
	*daemon
	bystander *actor
	ended     bool // the bystander
	verdict   *verdict
}

// restore restores the configuration, and gives root a lease.
func (t *privileges) restore(ctx context.Context) error {
	if err := t.root(ctx, "PUT", "/api/gpu/config", `{"foreign":"show"}`, nil); err != nil {
		return err
	}
	if err := t.root(ctx, "POST", "/api/gpu/monitoring/start", "", nil); err != nil {
		return err
	}
	// A process of its own acquires the lease: the bystander descends from this
	// process, and would count as a process of its leases.
	_, err := t.arena.calls(ctx, 0, t.socket, call{Method: "POST", Path: "/api/leases", Body: `{"id":"roots","memory_mb":1000,"slots":0,"binding":"named"}`})
	return err
}

// look checks what the attacker gained.
func (t *privileges) look(ctx context.Context, how string) error {
	time.Sleep(100 * time.Millisecond) // the daemon may still work on calls whose callers did not wait
	var config struct {
		Foreign string `json:"foreign"`
	}
	var status api.StatusAll
	leases, err := t.leases(ctx)
	if err == nil {
		err = t.root(ctx, "GET", "/api/gpu/config", "", &config)
	}
	if err == nil {
		err = t.root(ctx, "GET", "/api/gpu/status/all", "", &status)
	}
	if err != nil {
		return err
	}
	gained := false
	if config.Foreign != "show" {
		gained = true
		t.verdict.gain("foreign is %q, %s", config.Foreign, how)
		if !t.ended && eventually(3*time.Second, func() bool { return !t.bystander.alive() }) {
			t.ended = true
			t.verdict.gain("the daemon ended a process of uid %d, because foreign is %q", victim, config.Foreign)
		}
	}
	if !status.Monitoring {
		gained = true
		t.verdict.gain("monitoring is stopped, %s", how)
	}
	if _, stands := leases["roots"]; !stands {
		gained = true
		t.verdict.gain("the attacker released root's lease, %s", how)
	}
	first := 0
	for id, l := range leases {
		if id == "roots" {
			continue
		}
		if l.Priority > 0 {
			first++
		}
		_ = t.root(ctx, "DELETE", "/api/leases/"+id, "", nil) // the daemon may have released a lease without a waiting caller
	}
	if first > 0 {
		gained = true
		t.verdict.gain("%d leases with a priority above 0, %s", first, how)
	}
	if !gained {
		return nil
	}
	if err := t.root(ctx, "DELETE", "/api/leases/roots", "", nil); err != nil && leases["roots"].ID != "" {
		return err
	}
	return t.restore(ctx)
}

// fromNamespaces tries the same from namespaces: as uid 0 of a user namespace,
// and as an ordinary user of a PID namespace that root made.
func (t *privileges) fromNamespaces(ctx context.Context, a *arena) error {
	for _, door := range t.doors() {
		for _, flags := range []uintptr{0, syscall.CLONE_NEWPID, syscall.CLONE_NEWNET} {
			if flags == syscall.CLONE_NEWNET && door.Network == "tcp" {
				continue // a network namespace has another loopback
			}
			var got []reply
			asked := askDeeper{Flags: flags, Calls: askCalls{Door: door, Calls: slices.Concat(administering(answered, 3), administering(reset, 5), stopping(reset, 5))}}
			if err := a.do(ctx, attacker, 0, "deeper", asked, &got); err != nil {
				return err
			}
			if got == nil {
				t.verdict.noting("without user namespaces: this kernel gives ordinary users none")
				continue
			}
			if err := t.look(ctx, fmt.Sprintf("over %s, as root of a user namespace (clone flags %#x)", door, flags)); err != nil {
				return err
			}
		}
		var got []reply
		asked := askCalls{Door: door, Calls: slices.Concat(administering(answered, 3), administering(reset, 5), stopping(reset, 5))}
		if err := a.do(ctx, attacker, syscall.CLONE_NEWPID, "calls", asked, &got); err != nil {
			return err
		}
		if err := t.look(ctx, fmt.Sprintf("over %s, from a PID namespace", door)); err != nil {
			return err
		}
	}
	return nil
}

// askDeeper asks for calls from a user namespace and the namespaces in flags.
type askDeeper struct {
	Flags uintptr
	Calls askCalls
}

// actInNamespace makes calls as uid 0 of a user namespace of the attacker. It
// says null if the kernel gives it none.
func actInNamespace(_ context.Context, in json.RawMessage, say func(any)) error {
	var asked askDeeper
	if err := json.Unmarshal(in, &asked); err != nil {
		return err
	}
	text, err := json.Marshal(asked.Calls)
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", childCommand, "calls")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | asked.Flags,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		say(nil)
		return nil
	}
	if _, err := stdin.Write(append(text, '\n')); err != nil {
		return err
	}
	var got []reply
	if err := json.NewDecoder(stdout).Decode(&got); err != nil {
		return err
	}
	say(got)
	_ = stdin.Close()
	_, _ = io.Copy(io.Discard, stdout)
	return cmd.Wait()
}
