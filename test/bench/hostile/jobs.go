package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/api"
)

// jobsOfOthers tries to see, change and repeat a job of root, and to be its minder.
func jobsOfOthers(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{})
	if err != nil {
		return v, err
	}
	private, err := a.folder("private", 0o700, 0)
	if err != nil {
		return v, err
	}
	body := fmt.Sprintf(`{"name":"roots","command":["/bin/sh","-c","sleep 1000 # zqcommand"],"directory":%q,"environment":["SECRET=zqsecret"],"lease":{"memory_mb":10,"comment":"zqcomment"}}`, private)
	var roots api.Job
	if err := d.root(ctx, "POST", "/api/jobs", body, &roots); err != nil {
		return v, err
	}
	running := func() bool {
		return d.root(ctx, "GET", "/api/jobs/"+roots.ID, "", &roots) == nil && roots.State == "running"
	}
	if !eventually(20*time.Second, running) {
		return v, fmt.Errorf("root's job is %s: %s", roots.State, roots.Cause)
	}
	run := strings.TrimPrefix(roots.ID, "roots-") + ".0.1"
	changes := []call{}
	for _, act := range []string{"cancel", "hold", "unhold", "redo"} {
		changes = append(changes, call{Method: "POST", Path: "/api/jobs/" + roots.ID + "/" + act, Body: "{}"})
	}
	changes = append(changes,
		call{Method: "POST", Path: "/api/jobs/" + roots.ID + "/priority", Body: `{"priority":-5}`},
		call{Method: "GET", Path: "/api/jobs/" + roots.ID + "/log"},
		call{Method: "GET", Path: "/api/jobs/" + roots.ID + "/log?follow=true"},
		call{Method: "POST", Path: "/api/jobs/minder", Body: fmt.Sprintf(`{"run":%q,"version":1}`, run)},
		call{Method: "POST", Path: "/api/jobs/minder", Body: `{"run":"1.0.1","version":1}`},
		call{Method: "DELETE", Path: "/api/leases/" + roots.ID},
	)
	looks := []call{{Method: "GET", Path: "/api/jobs"}, {Method: "GET", Path: "/api/jobs/" + roots.ID}, {Method: "GET", Path: "/api/events?follow=false"}, {Method: "GET", Path: "/api/leases"}, {Method: "GET", Path: "/metrics"}}
	for _, door := range d.doors() {
		got, err := a.calls(ctx, attacker, door, append(changes, looks...)...)
		if err != nil {
			return v, err
		}
		for i, each := range got {
			if i < len(changes) && each.Status/100 == 2 {
				v.gain("%s %s over %s", changes[i].Method, changes[i].Path, door)
			}
			if strings.Contains(each.Body, "zq") || strings.Contains(each.Body, private) {
				v.gain("something of root's job, over %s: %s", door, cut(each.Body, 200))
			}
		}
	}
	if !running() || roots.Priority != 0 {
		v.gain("root's job is %s with the priority %d", roots.State, roots.Priority)
	}
	// Nobody else can write, or read, what the daemon and the minder keep.
	err = filepath.WalkDir(filepath.Join(d.dir, "state", "jobs"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		about, err := entry.Info()
		if err == nil && (about.Mode()&0o077 != 0 || about.Sys().(*syscall.Stat_t).Uid != 0) {
			v.gain("others can use %s: %v", path, about.Mode())
		}
		return nil
	})
	return v, cmp.Or(err, d.cancelJobs(ctx))
}

// cancelJobs ends all jobs, which would outlive the daemon.
func (d *daemon) cancelJobs(ctx context.Context) error {
	var list api.Jobs
	if err := d.root(ctx, "GET", "/api/jobs", "", &list); err != nil {
		return err
	}
	for _, j := range list.Jobs {
		if !j.Over() {
			_ = d.root(ctx, "POST", "/api/jobs/"+j.ID+"/cancel", "{}", nil) // it may just have ended
		}
	}
	if !eventually(20*time.Second, func() bool {
		err := d.root(ctx, "GET", "/api/jobs?state=held,waiting,starting,running", "", &list)
		return err == nil && len(list.Jobs) == 0
	}) {
		return fmt.Errorf("%d jobs do not end", len(list.Jobs))
	}
	return nil
}

// jobTricks submits jobs whose folder, log, environment and command aim at what is root's.
func jobTricks(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{})
	if err != nil {
		return v, err
	}
	private, err := a.folder("private", 0o700, 0)
	if err != nil {
		return v, err
	}
	own, err := a.folder("own", 0o700, attacker)
	if err != nil {
		return v, err
	}
	secret := filepath.Join(private, "secret")
	link, linked := filepath.Join(own, "link.log"), filepath.Join(own, "private")
	if err := cmp.Or(os.WriteFile(secret, []byte(secretText), 0o600), os.Symlink(secret, link), os.Symlink(private, linked)); err != nil {
		return v, err
	}
	pipe := filepath.Join(own, "pipe.log")
	if err := cmp.Or(syscall.Mkfifo(pipe, 0o600), os.Chown(pipe, attacker, attacker)); err != nil {
		return v, err
	}
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return v, err
	}
	etc := fmt.Sprintf("/etc/berth-hostile-%d", os.Getpid())
	defer os.Remove(etc)
	look := `cat /proc/self/status; ls -l /proc/self/fd; cat /proc/$PPID/environ /proc/$PPID/maps; ls -l /proc/$PPID/fd; cat ` + secret
	tricks := []map[string]any{
		{"name": "plain", "command": []string{"/bin/sh", "-c", look}},
		{"name": "preload", "command": []string{"/bin/sh", "-c", look}, "environment": []string{"LD_PRELOAD=/nonexistent/zq.so", "LD_LIBRARY_PATH=" + own, "GODEBUG=x", "BERTH_SOCKET=/nonexistent", "PATH=" + own, "HOME=" + private}},
		{"name": "etc", "command": []string{"/bin/echo", "zq"}, "output": etc},
		{"name": "etcerror", "command": []string{"/bin/echo", "zq"}, "error": etc},
		{"name": "up", "command": []string{"/bin/echo", "zq"}, "output": "../private/stolen"},
		{"name": "percent", "command": []string{"/bin/echo", "zq"}, "output": "%%../../private/%j"},
		{"name": "link", "command": []string{"/bin/echo", "zq"}, "output": link},
		{"name": "linked", "command": []string{"/bin/echo", "zq"}, "output": linked + "/stolen"},
		{"name": "folder", "command": []string{"/bin/sh", "-c", "echo zq > stolen"}, "directory": private},
		{"name": "linkedfolder", "command": []string{"/bin/sh", "-c", "echo zq > stolen"}, "directory": linked},
		{"name": "swapped", "command": []string{"/bin/sh", "-c", "rm swapped.log; ln -s " + secret + " swapped.log"}, "output": own + "/swapped.log"},
		{"name": "fifo", "command": []string{"/bin/sh", "-c", "rm fifo.log; mkfifo fifo.log"}, "output": own + "/fifo.log"},
		{"name": "pipe", "command": []string{"/bin/echo", "zq"}, "output": pipe},
		{"name": "passwd", "command": []string{"/bin/echo", "zq"}, "output": "/etc/passwd"},
		{"name": "device", "command": []string{"/bin/echo", "zq"}, "output": "/dev/mem", "error": "/proc/1/environ"},
		{"name": "minders", "command": []string{"/bin/sh", "-c", "echo zq > /proc/$PPID/fd/3; echo zq > /proc/$PPID/mem"}, "output": "/proc/self/fd/3"},
		{"name": "records", "command": []string{"/bin/sh", "-c", "echo zq > " + filepath.Join(d.dir, "state", "jobs", "runs", "1.0.1") + "; echo zq > " + filepath.Join(d.dir, "state", "jobs", "runs", "9.0.1")}},
	}
	names := map[string]string{}
	for _, trick := range tricks {
		if trick["directory"] == nil {
			trick["directory"] = own
		}
		trick["lease"] = map[string]any{"memory_mb": 1, "slots": 0}
		body, err := json.Marshal(trick)
		if err != nil {
			return v, err
		}
		got, err := a.calls(ctx, attacker, d.socket, call{Method: "POST", Path: "/api/jobs", Body: string(body)})
		if err != nil {
			return v, err
		}
		var j api.Job
		if got[0].Status != 201 {
			continue // refused: nothing is gained
		}
		if err := json.Unmarshal([]byte(got[0].Body), &j); err != nil {
			return v, err
		}
		names[j.ID] = fmt.Sprint(trick["name"])
	}
	if len(names) < 5 {
		return v, fmt.Errorf("only %d of the jobs were taken", len(names))
	}
	for id, name := range names {
		var j api.Job
		if !eventually(30*time.Second, func() bool { return d.root(ctx, "GET", "/api/jobs/"+id, "", &j) == nil && j.Over() }) {
			v.gain("the job %s does not end: it is %s (%s)", name, j.State, j.Cause)
			continue
		}
		got, err := a.calls(ctx, attacker, d.socket, call{Method: "GET", Path: "/api/jobs/" + id + "/log"})
		if err != nil {
			return v, err
		}
		log := got[0].Body
		if strings.Contains(log, secretText) {
			v.gain("root's secret, by the log of the job %s", name)
		}
		if name == "plain" || name == "preload" && log != "" {
			checkIdentity(&v, name, log, d.dir)
		}
	}
	if text, err := os.ReadFile("/etc/passwd"); err != nil || string(text) != string(passwd) {
		v.gain("/etc/passwd is changed: %v", err)
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != secretText {
		v.gain("root's file is changed: %q %v", cut(string(text), 80), err)
	}
	if list, err := os.ReadDir(private); err != nil || len(list) != 1 {
		v.gain("root's folder has %v %v", list, err)
	}
	if _, err := os.Lstat(etc); err == nil {
		v.gain("%s was made", etc)
	}
	return v, d.cancelJobs(ctx)
}

// checkIdentity reads what a job of the attacker saw of itself and of its minder.
func checkIdentity(v *verdict, name, log, folder string) {
	want := strconv.Itoa(attacker)
	for line := range strings.Lines(log) {
		words := strings.Fields(line)
		switch {
		case len(words) == 5 && (words[0] == "Uid:" || words[0] == "Gid:"):
			for _, id := range words[1:] {
				if id != want {
					v.gain("the job %s has %s", name, strings.TrimSpace(line))
				}
			}
		case len(words) > 0 && words[0] == "Groups:":
			for _, id := range words[1:] {
				if id != want {
					v.gain("the job %s has %s", name, strings.TrimSpace(line))
				}
			}
		case len(words) == 2 && (words[0] == "CapEff:" || words[0] == "CapPrm:" || words[0] == "CapInh:" || words[0] == "CapAmb:") && strings.Trim(words[1], "0") != "":
			v.gain("the job %s has %s", name, strings.TrimSpace(line))
		case strings.Contains(line, filepath.Join(folder, "state")):
			v.gain("the job %s has an open file of the daemon, or sees one of its minder: %s", name, strings.TrimSpace(line))
		}
	}
	if name == "plain" && !strings.Contains(log, "Uid:") {
		v.gain("the job %s said nothing of itself: %s", name, cut(log, 200))
	}
}

// jobDoors submits by token, over TCP and from namespaces.
func jobDoors(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{})
	if err != nil {
		return v, err
	}
	var token api.NewToken
	if err := d.root(ctx, "POST", "/api/tokens", `{"name":"theirs","role":"admin"}`, &token); err != nil {
		return v, err
	}
	body := `{"command":["/bin/sleep","1000"],"lease":{"memory_mb":1}}`
	plain := call{Method: "POST", Path: "/api/jobs", Body: body}
	shown := call{Method: "POST", Path: "/api/jobs", Body: body, Token: token.Secret}
	for _, try := range []struct {
		how  string
		door door
		call call
	}{{"with a token on the socket", d.socket, shown}, {"with a token over TCP", d.tcp, shown}, {"over TCP", d.tcp, plain}} {
		got, err := a.calls(ctx, attacker, try.door, try.call)
		if err != nil {
			return v, err
		}
		if got[0].Status/100 == 2 {
			v.gain("a job was submitted %s", try.how)
		}
	}
	for _, flags := range []uintptr{0, syscall.CLONE_NEWPID, syscall.CLONE_NEWNS} {
		var got []reply
		if err := a.do(ctx, attacker, 0, "deeper", askDeeper{Flags: flags, Calls: askCalls{Door: d.socket, Calls: []call{plain}}}, &got); err != nil {
			return v, err
		}
		if len(got) > 0 && got[0].Status/100 == 2 {
			v.gain("a job was submitted from a user namespace (clone flags %#x)", flags)
		}
	}
	for _, flags := range []uintptr{syscall.CLONE_NEWPID, syscall.CLONE_NEWNS} {
		var got []reply
		if err := a.do(ctx, attacker, flags, "calls", askCalls{Door: d.socket, Calls: []call{plain}}, &got); err != nil {
			return v, err
		}
		if len(got) > 0 && got[0].Status/100 == 2 {
			v.gain("a job was submitted from another namespace (clone flags %#x)", flags)
		}
	}
	var list api.Jobs
	if err := d.root(ctx, "GET", "/api/jobs", "", &list); err != nil {
		return v, err
	}
	if len(list.Jobs) > 0 {
		v.gain("%d jobs are there", len(list.Jobs))
	}
	return v, cmp.Or(boundToken(ctx, a, d, &v), d.cancelJobs(ctx))
}

// boundToken gives the attacker a token that runs jobs as one user, with the highest role.
// By every door and from every namespace it must run them as that user, and never give
// another one.
func boundToken(ctx context.Context, a *arena, d *daemon, v *verdict) error {
	const name = "daemon" // a user whom every machine has, and who is not the attacker
	as, err := user.Lookup(name)
	if err != nil {
		return err
	}
	var roots api.Job
	if err := d.root(ctx, "POST", "/api/jobs", `{"name":"roots","command":["/bin/true"],"hold":true}`, &roots); err != nil {
		return err
	}
	var token api.NewToken
	if err := d.root(ctx, "POST", "/api/tokens", `{"name":"bound","role":"admin","as":"`+name+`"}`, &token); err != nil {
		return err
	}
	shown := func(path, body string) call { return call{Method: "POST", Path: path, Body: body, Token: token.Secret} }
	submit := shown("/api/jobs", `{"name":"theirs","command":["/bin/cat","/proc/self/status"],"directory":"/","lease":{"memory_mb":1,"slots":0}}`)
	refused := []call{
		shown("/api/jobs/"+roots.ID+"/redo", "{}"),
		shown("/api/jobs/minder", `{"run":"1.0.1","version":1}`),
		shown("/api/session/link", ""),
		shown("/api/tokens", `{"name":"more","role":"user","as":"root"}`),
		shown("/api/tokens", `{"name":"more","role":"user","as":"nobody"}`),
		shown("/api/tokens", `{"name":"bound","role":"user","as":"nobody","replace":true}`),
		{Method: "PUT", Path: "/api/gpu/config", Body: `{"hooks":{"theirs":{"command":["/bin/true"]}}}`, Token: token.Secret},
	}
	var got []reply
	for _, door := range d.doors() {
		tried, err := a.calls(ctx, attacker, door, append(refused, submit)...)
		if err != nil {
			return err
		}
		for i, each := range tried[:len(refused)] {
			if each.Status/100 == 2 {
				v.gain("%s %s with a bound token over %s: %s", refused[i].Method, refused[i].Path, door, cut(each.Body, 120))
			}
		}
		got = append(got, tried[len(refused):]...)
	}
	for _, flags := range []uintptr{syscall.CLONE_NEWPID, syscall.CLONE_NEWNS} {
		var inside []reply
		if err := a.do(ctx, attacker, flags, "calls", askCalls{Door: d.socket, Calls: []call{submit}}, &inside); err != nil {
			return err
		}
		got = append(got, inside...)
	}
	for _, each := range got {
		var j api.Job
		if err := json.Unmarshal([]byte(each.Body), &j); err != nil || each.Status != 201 {
			return fmt.Errorf("submit with a bound token: %d %s", each.Status, each.Body)
		}
		if !eventually(30*time.Second, func() bool { return d.root(ctx, "GET", "/api/jobs/"+j.ID, "", &j) == nil && j.Over() }) {
			return fmt.Errorf("the job %s of a bound token is %s (%s)", j.ID, j.State, j.Cause)
		}
		log, err := a.calls(ctx, 0, d.socket, call{Method: "GET", Path: "/api/jobs/" + j.ID + "/log"})
		if err != nil {
			return err
		}
		if want := "Uid:" + strings.Repeat("\t"+as.Uid, 4) + "\n"; j.User != name || !strings.Contains(log[0].Body, want) {
			v.gain("the job %s of a token that is bound to %s runs as %s: %s %s", j.ID, name, j.User, j.Cause, cut(log[0].Body, 300))
		}
	}
	return nil
}

// manyJobs submits as many tasks as the daemon takes, and reads a log of a gigabyte.
func manyJobs(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{})
	if err != nil {
		return v, err
	}
	own, err := a.folder("own", 0o700, attacker)
	if err != nil {
		return v, err
	}
	size := a.size(64<<20, 1<<30)
	long := fmt.Sprintf(`{"name":"long","command":["/bin/sh","-c","yes 0123456789 | head -c %d; echo; echo zqend"],"directory":%q,"output":"long.log","lease":{"memory_mb":1}}`, size, own)
	got, err := a.calls(ctx, attacker, d.socket, call{Method: "POST", Path: "/api/jobs", Body: long})
	if err != nil {
		return v, err
	}
	var j api.Job
	if err := json.Unmarshal([]byte(got[0].Body), &j); err != nil {
		return v, err
	}
	if !eventually(time.Minute, func() bool { return d.root(ctx, "GET", "/api/jobs/"+j.ID, "", &j) == nil && j.Over() }) {
		return v, fmt.Errorf("the job with the long log is %s", j.State)
	}
	before, err := d.peakMB()
	if err != nil {
		return v, err
	}
	log := "/api/jobs/" + j.ID + "/log"
	read, err := a.calls(ctx, attacker, d.socket, call{Method: "GET", Path: log + "?lines=5"}, call{Method: "GET", Path: log}, call{Method: "GET", Path: log + "?lines=1000000000"})
	if err != nil {
		return v, err
	}
	for _, each := range read {
		if !strings.HasSuffix(each.Body, "zqend\n") {
			v.gain("the end of a long log is %q", cut(each.Body, 80))
		}
	}
	after, err := d.peakMB()
	if err != nil {
		return v, err
	}
	if after-before > 64 {
		v.gain("reading a log of %s took %d MiB of the daemon", bytesOf(size), after-before)
	}
	array := call{Method: "POST", Path: "/api/jobs", Body: fmt.Sprintf(`{"command":["/bin/sleep","1000"],"array":"1-10000","directory":%q,"output":"/dev/null","lease":{"memory_mb":100000}}`, own), Times: 20}
	if got, err = a.calls(ctx, attacker, d.socket, array); err != nil {
		return v, err
	}
	taken := 0
	for _, each := range got {
		if each.Status == 201 {
			taken++
		}
	}
	if taken > 1 {
		v.gain("%d arrays of 10,000 tasks were taken; 10,000 tasks may wait", taken)
	}
	began := time.Now()
	if err := d.root(ctx, "POST", "/api/leases", `{"id":"roots","memory_mb":10,"slots":0}`, nil); err != nil {
		v.gain("root gets no lease beside 10,000 tasks: %v", err)
	}
	took := time.Since(began)
	peak, err := d.peakMB()
	if err != nil {
		return v, err
	}
	if peak-after > 128 {
		v.gain("%d MiB of the daemon, by 10,000 tasks", peak-after)
	}
	v.noting("a log of %s took %d MiB of the daemon, and 10,000 tasks %d; root's lease beside them %.1f ms", bytesOf(size), after-before, peak-after, took.Seconds()*1000)
	return v, d.cancelJobs(ctx)
}
