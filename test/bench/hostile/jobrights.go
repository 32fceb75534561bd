package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
)

// jobRights has set-user-id programs in jobs, which the user and the minder may not
// signal, and attacks the own minder: by ptrace, its memory, its files and by signals.
// The referee looks whether a program outlives its job, and whether an exit code is
// another than that of the command.
func jobRights(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{})
	if err != nil {
		return v, err
	}
	own, err := a.folder("own", 0o700, attacker)
	if err != nil {
		return v, err
	}
	// The user finds such programs on every machine: su and ping are some.
	rooted := filepath.Join(a.dir, "rooted")
	if err := copyProgram("/bin/sleep", rooted); err != nil {
		return v, err
	}
	if err := os.Chmod(rooted, 0o755|os.ModeSetuid); err != nil {
		return v, err
	}
	submit := func(name, script string) (j api.Job, err error) {
		body, err := json.Marshal(map[string]any{
			"name": name, "command": []string{"/bin/sh", "-c", script}, "directory": own, "lease": map[string]any{"memory_mb": 1, "slots": 0},
		})
		if err != nil {
			return j, err
		}
		got, err := a.calls(ctx, attacker, d.socket, call{Method: "POST", Path: "/api/jobs", Body: string(body)})
		if err == nil && got[0].Status != 201 {
			err = fmt.Errorf("the job %s was refused: %s", name, got[0].Body)
		}
		if err != nil {
			return j, err
		}
		return j, json.Unmarshal([]byte(got[0].Body), &j)
	}
	show := func(j *api.Job) bool { return d.root(ctx, "GET", "/api/jobs/"+j.ID, "", j) == nil }
	for _, try := range []struct {
		name, script string
		cancel       bool
	}{
		{"command", "exec " + rooted + " 98701", true},
		{"below", rooted + " 98702 & wait", true},
		{"session", "setsid -f " + rooted + " 98703; setsid -f sh -c 'exec " + rooted + " 98703'; wait", false},
	} {
		j, err := submit(try.name, try.script)
		if err != nil {
			return v, err
		}
		seconds := strings.Fields(try.script[strings.Index(try.script, "9870"):])[0]
		seconds = strings.Trim(seconds, ";'")
		if try.cancel && !eventually(20*time.Second, func() bool { return len(sleepers(rooted, seconds)) > 0 }) {
			show(&j)
			return v, fmt.Errorf("the set-user-id program of the job %s does not run: it is %s (%s)", try.name, j.State, j.Cause)
		}
		if try.cancel {
			if got, err := a.calls(ctx, attacker, d.socket, call{Method: "POST", Path: "/api/jobs/" + j.ID + "/cancel", Body: "{}"}); err != nil || got[0].Status/100 != 2 {
				return v, fmt.Errorf("the job %s was not cancelled: %v %w", try.name, got, err)
			}
		}
		if !eventually(30*time.Second, func() bool { return show(&j) && j.Over() }) {
			v.gain("the job %s with a set-user-id program does not end: it is %s", try.name, j.State)
		}
		if !eventually(10*time.Second, func() bool { return len(sleepers(rooted, seconds)) == 0 }) {
			v.gain("a set-user-id program outlives its job %s", try.name)
		}
		for _, pid := range sleepers(rooted, seconds) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	j, err := submit("pestered", "echo running; while [ ! -e go ]; do sleep 0.1; done; exit 3")
	if err != nil {
		return v, err
	}
	if !eventually(20*time.Second, func() bool { return show(&j) && j.PID != 0 && j.Log != "" }) {
		return v, fmt.Errorf("the job is %s (%s)", j.State, j.Cause)
	}
	var gains []string
	if err := a.do(ctx, attacker, 0, "pester", j.PID, &gains); err != nil {
		return v, err
	}
	for _, each := range gains {
		v.gain("%s", each)
	}
	number := strings.TrimPrefix(j.ID, "pestered-")
	order := call{Method: "POST", Path: "/api/jobs/minder", Body: fmt.Sprintf(`{"run":"%s.0.1","version":1}`, number)}
	if got, err := a.calls(ctx, attacker, d.socket, order); err != nil || got[0].Status/100 == 2 {
		v.gain("the order of the own run, for another process: %v %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(own, "go"), nil, 0o644); err != nil {
		return v, err
	}
	if !eventually(30*time.Second, func() bool { return show(&j) && j.Over() }) || j.State != "failed" || j.Exit.Or(-1) != 3 {
		v.gain("a job that exits with 3 and whose minder was attacked is %s with the exit code %v (%s)", j.State, j.Exit, j.Cause)
	}
	return v, d.cancelJobs(ctx)
}

// sleepers returns the processes of a program that sleep for some seconds.
func sleepers(program, seconds string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		pid := 0
		if _, number := fmt.Sscan(e.Name(), &pid); err == nil && number == nil && string(text) == program+"\x00"+seconds+"\x00" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// pester attacks a process of the own user, and says what it reached. None of the signals
// may end a minder.
func pester(_ context.Context, in json.RawMessage, say func(any)) error {
	pid := 0
	if err := json.Unmarshal(in, &pid); err != nil {
		return err
	}
	gains := []string{}
	for _, file := range []string{"mem", "environ", "maps", "auxv", "io", "syscall"} {
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/%s", pid, file), os.O_RDONLY, 0)
		if err != nil {
			continue
		}
		if text, err := io.ReadAll(io.LimitReader(f, 64)); err == nil && len(text) > 0 {
			gains = append(gains, "the attacker reads "+f.Name()+" of the minder")
		}
		_ = f.Close()
	}
	if list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); err == nil {
		gains = append(gains, fmt.Sprintf("the attacker lists the %d open files of the minder", len(list)))
	}
	for fd := range 64 {
		if f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", pid, fd), os.O_WRONLY, 0); err == nil {
			gains = append(gains, fmt.Sprintf("the attacker opens file %d of the minder", fd))
			_ = f.Close()
		}
	}
	if handle, err := unix.PidfdOpen(pid, 0); err == nil {
		for fd := range 64 {
			if got, err := unix.PidfdGetfd(handle, fd, 0); err == nil {
				gains = append(gains, fmt.Sprintf("the attacker takes file %d of the minder", fd))
				_ = unix.Close(got)
			}
		}
		_ = unix.Close(handle)
	}
	if err := unix.PtraceSeize(pid); err == nil {
		gains = append(gains, "the attacker traces the minder")
	}
	var local [8]byte
	from := []unix.Iovec{{Base: &local[0], Len: 8}}
	if _, err := unix.ProcessVMReadv(pid, from, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0); err == nil {
		gains = append(gains, "the attacker reads the memory of the minder")
	}
	for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGCHLD,
		syscall.SIGPIPE, syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGXCPU, syscall.SIGWINCH, syscall.SIGPROF, syscall.SIGTRAP, syscall.SIGSYS, syscall.SIGABRT} {
		if err := syscall.Kill(pid, signal); err != nil && signal == syscall.SIGHUP {
			return fmt.Errorf("the minder %d cannot be signalled: %w", pid, err)
		}
	}
	_ = syscall.Kill(pid, syscall.SIGCONT)
	say(gains)
	return nil
}
