package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/berth-gpu/berth/api"
)

// nextLog puts links under the names that the logs of root's next jobs will have, in a folder
// that the attacker can write to.
func nextLog(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{})
	if err != nil {
		return v, err
	}
	private, err := a.folder("private", 0o700, 0)
	if err != nil {
		return v, err
	}
	project, err := a.folder("project", 0o777, 0)
	if err != nil {
		return v, err
	}
	secret := filepath.Join(private, "secret")
	if err := os.WriteFile(secret, []byte(secretText), 0o600); err != nil {
		return v, err
	}
	submit := func() (j api.Job, err error) {
		body := fmt.Sprintf(`{"name":"train","command":["/bin/echo","zq"],"directory":%q,"lease":{"memory_mb":1,"slots":0}}`, project)
		if err := d.root(ctx, "POST", "/api/jobs", body, &j); err != nil {
			return j, err
		}
		if !eventually(30*time.Second, func() bool { return d.root(ctx, "GET", "/api/jobs/"+j.ID, "", &j) == nil && j.Over() }) {
			v.gain("root's job is %s for 30 s: %s", j.State, j.Cause)
		}
		return j, nil
	}
	first, err := submit()
	if err != nil {
		return v, err
	}
	number := 0
	if _, err := fmt.Sscanf(first.ID, "train-%d", &number); err != nil {
		return v, err
	}
	for i, target := range []string{secret, filepath.Join(private, "new")} {
		link := filepath.Join(project, fmt.Sprintf("berth-train-%d.log", number+1+i))
		wait, err := a.start(as(exec.Command("ln", "-s", target, link), attacker, 0))
		if err == nil {
			err = wait()
		}
		if err != nil {
			return v, err
		}
		if _, err := submit(); err != nil {
			return v, err
		}
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != secretText {
		v.gain("root's job wrote into a private file of root: %q", cut(string(text), 60))
	}
	if list, err := os.ReadDir(private); err != nil || len(list) != 1 {
		v.gain("root's job made a file in a private folder of root: %v %v", list, err)
	}
	return v, d.cancelJobs(ctx)
}
