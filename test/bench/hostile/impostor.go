package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/api"
)

// impostor takes the place of the daemon's socket in a folder such as /tmp while the daemon
// restarts, and tells those who ask there what to run as root. A daemon that refuses such a
// folder is attacked in one that root opens to everybody after it has started.
func impostor(ctx context.Context, a *arena) (v verdict, err error) {
	shared, err := a.folder("shared", 0o777|fs.ModeSticky, 0)
	if err != nil {
		return v, err
	}
	drop, err := a.folder("drop", 0o777, attacker)
	if err != nil {
		return v, err
	}
	s := setup{socket: filepath.Join(shared, "s")}
	d, err := a.serve(ctx, s)
	if err != nil {
		if !strings.Contains(err.Error(), "the folder of the socket") {
			return v, err
		}
		if err := os.Chmod(shared, 0o755); err != nil {
			return v, err
		}
		if d, err = a.serve(ctx, s); err != nil {
			return v, err
		}
		if err := os.Chmod(shared, 0o777|fs.ModeSticky); err != nil {
			return v, err
		}
		v.noting("a sticky folder is refused; ")
	} else {
		v.gain("root's daemon has its socket in a folder where everybody can put one")
	}
	jobs := a.size(100, 400)
	body := fmt.Sprintf(`{"command":["/bin/true"],"array":"1-%d","directory":"/","output":"/dev/null","lease":{"memory_mb":1,"slots":0}}`, jobs)
	if got, err := a.calls(ctx, attacker, d.socket, call{Method: "POST", Path: "/api/jobs", Body: body}); err != nil || got[0].Status != http.StatusCreated {
		return v, fmt.Errorf("the attacker's job: %v %w", got, err)
	}
	double, err := a.act(ctx, attacker, 0, "double", askImpostor{s.socket, drop}, nil)
	if err != nil {
		return v, err
	}
	defer double.stop()
	pause(ctx, time.Second/2) // minders start all the time
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return v, err
	}
	<-d.exited
	taken := eventually(5*time.Second, func() bool { _, err := os.Stat(filepath.Join(drop, "taken")); return err == nil })
	pause(ctx, a.lasting(time.Second, 10*time.Second))                       // minders ask again, at first soon and then every two seconds
	for _, command := range [][]string{{"leases"}, {"exec", "--", "true"}} { // exec asks before Go runs
		short, cancel := context.WithTimeout(ctx, time.Second)
		client := exec.CommandContext(short, a.berth, command...)
		client.Env = append(os.Environ(), "BERTH_SOCKET="+s.socket)
		_ = client.Run() // the impostor notes what it is asked for
		cancel()
	}
	entries, err := os.ReadDir(drop)
	if err != nil {
		return v, err
	}
	ran := 0
	for _, e := range entries {
		about, err := e.Info()
		if err != nil {
			return v, err
		}
		switch {
		case about.Sys().(*syscall.Stat_t).Uid == 0:
			ran++
		case e.Name() != "taken":
			v.gain("the impostor was %s", e.Name())
		}
	}
	if ran > 0 {
		v.gain("%d minders ran a command of the attacker as root", ran)
	}
	double.stop()
	if !taken {
		return v, errors.New("the attacker did not get the place of the socket")
	}
	// The jobs outlive the daemon.
	if err := errors.Join(os.Remove(s.socket), os.Chmod(shared, 0o755)); err != nil {
		return v, err
	}
	if d, err = a.serveIn(ctx, d.dir, s); err != nil {
		return v, err
	}
	v.noting("%sthe attacker got the place of the socket", v.note)
	return v, d.cancelJobs(ctx)
}

// askImpostor asks a process to listen on a socket as soon as nobody else does, and to note in
// a folder what it is asked for.
type askImpostor struct{ Path, Drop string }

func beImpostor(ctx context.Context, in json.RawMessage, say func(any)) error {
	var asked askImpostor
	if err := json.Unmarshal(in, &asked); err != nil {
		return err
	}
	say("ready")
	var l net.Listener
	for err := fs.ErrExist; err != nil && ctx.Err() == nil; pause(ctx, 500*time.Microsecond) {
		l, err = net.Listen("unix", asked.Path)
	}
	if ctx.Err() != nil {
		return nil
	}
	note := func(what string) { _ = os.WriteFile(filepath.Join(asked.Drop, what), nil, 0o600) }
	if err := os.Chmod(asked.Path, 0o777); err != nil {
		return err
	}
	note("taken")
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note("asked for" + strings.ReplaceAll(r.URL.Path, "/", " "))
		var of api.MinderRequest
		_ = json.NewDecoder(r.Body).Decode(&of) // others than minders ask as well
		_ = json.NewEncoder(w).Encode(api.MinderOrder{
			Version: of.Version, Run: of.Run, User: "root", Account: &api.MinderAccount{Name: "root", Home: "/"}, Log: "none", Output: "/dev/null", Directory: "/",
			Command: []string{"/bin/sh", "-c", "id > '" + asked.Drop + "/'root-$$"},
		})
	})}
	go func() { _ = server.Serve(l) }()
	<-ctx.Done()
	return nil
}
