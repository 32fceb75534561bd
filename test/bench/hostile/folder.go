package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// folder prepares OUTPUT.berth in a shared folder, with links to private files
// of root. Then root runs a batch there.
func folder(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{})
	if err != nil {
		return v, err
	}
	shared, err := a.folder("shared", 0o777|fs.ModeSticky, 0)
	if err != nil {
		return v, err
	}
	private, err := a.folder("private", 0o700, 0)
	if err != nil {
		return v, err
	}
	input := filepath.Join(a.dir, "in.jsonl")
	if err := os.WriteFile(input, []byte(strings.Repeat("{\"n\":1}\n", 8)), 0o644); err != nil {
		return v, err
	}
	for i, trap := range traps() {
		secret := filepath.Join(private, fmt.Sprintf("secret-%d", i))
		if err := os.WriteFile(secret, []byte(secretText), 0o600); err != nil {
			return v, err
		}
		output := filepath.Join(shared, fmt.Sprintf("out-%d.jsonl", i))
		if err := a.do(ctx, attacker, 0, "links", askLinks{
			Output: output, Input: input, Berth: a.berth, Socket: d.socket.Address, Secret: secret, New: secret + "-new", Trap: trap.name,
		}, nil); err != nil {
			return v, err
		}
		run := append([]string{"run", "--output", output}, trap.flags...)
		if !slices.Contains(run, "--input") {
			run = append(run, "--input", input)
		}
		cmd := exec.CommandContext(ctx, a.berth, append(run, "--", a.self, childCommand, "worker")...)
		cmd.Stdin = strings.NewReader("{\"n\":1}\n")
		cmd.Env = append(os.Environ(), "BERTH_SOCKET="+d.socket.Address)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		limit := time.AfterFunc(20*time.Second, func() { _ = cmd.Cancel() })
		wait, err := a.start(cmd)
		if err != nil {
			return v, err
		}
		_ = wait() // berth run may refuse the folder
		limit.Stop()
		if i == 0 && !strings.Contains(said.String(), "record") && !strings.Contains(said.String(), ".berth") {
			return v, fmt.Errorf("berth run does not work: %s", said.String())
		}
		if text, err := os.ReadFile(secret); err != nil || string(text) != secretText {
			v.gain("the attacker changed a private file of root through %s: %q", trap.name, cut(string(text), 60))
		}
		if text, err := os.ReadFile(secret + "-new"); err == nil {
			v.gain("the attacker made a file in a private folder of root through %s: %q", trap.name, cut(string(text), 60))
		}
		if about, err := os.Stat(secret); err == nil && (about.Mode().Perm() != 0o600 || about.Sys().(*syscall.Stat_t).Uid != 0) {
			v.gain("a private file of root has mode %v, through %s", about.Mode(), trap.name)
		}
	}
	return v, nil
}

const secretText = "root's secret\n"

// trap names what the attacker prepares, and says how root runs its batch.
type trap struct {
	name  string
	flags []string
}

const (
	unfinished   = "an unfinished run of the attacker's, whose outcomes are a link"
	linkedOutput = "an output that is a link, with --force"
)

func traps() []trap {
	return []trap{
		{"a link called journal", nil},
		{"a link called outcomes", nil},
		{"a link called ordered", []string{"--ordered"}},
		{"a link called input", []string{"--input", "-", "--spool"}},
		{"a link called input.part", []string{"--input", "-", "--spool"}},
		{"a link called lock", nil},
		{"links to files that do not exist", nil},
		{"a folder that is a link", nil},
		{"every link, with --force", []string{"--force"}},
		{unfinished, nil},
		{linkedOutput, []string{"--force"}},
	}
}

// askLinks asks for the folder that a run to Output would use, with links to
// Secret.
type askLinks struct{ Output, Input, Berth, Socket, Secret, New, Trap string }

func prepareLinks(ctx context.Context, in json.RawMessage, say func(any)) error {
	var asked askLinks
	if err := json.Unmarshal(in, &asked); err != nil {
		return err
	}
	dir := asked.Output + ".berth"
	switch asked.Trap {
	case unfinished:
		defer say("prepared")
		return leaveUnfinished(ctx, asked, dir)
	case linkedOutput:
		defer say("prepared")
		return os.Symlink(asked.Secret, asked.Output)
	}
	all := []string{"journal", "outcomes", "ordered", "input", "input.part", "lock"}
	name, one := strings.CutPrefix(asked.Trap, "a link called ")
	to := asked.Secret
	switch {
	case one:
		all = []string{name}
	case strings.Contains(asked.Trap, "do not exist"):
		to = asked.New
	case strings.Contains(asked.Trap, "folder"):
		all = nil
		if err := os.Symlink(filepath.Dir(asked.Secret), dir); err != nil {
			return err
		}
	}
	if all != nil {
		if err := os.Mkdir(dir, 0o777); err != nil {
			return err
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			return err
		}
	}
	for _, name := range all {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	say("prepared")
	return nil
}

// leaveUnfinished starts the run that root will start, stops it, and replaces its
// outcomes by a link: root's run would continue there.
func leaveUnfinished(ctx context.Context, asked askLinks, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, asked.Berth, "run", "--input", asked.Input, "--output", asked.Output, "--", self, childCommand, "worker", "once")
	cmd.Env = append(os.Environ(), "BERTH_SOCKET="+asked.Socket)
	if err := cmd.Start(); err != nil {
		return err
	}
	begun := eventually(15*time.Second, func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "journal"))
		return err == nil && bytes.Count(text, []byte("\n")) > 1
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if !begun {
		return errors.New("the attacker's own run does not start")
	}
	outcomes := filepath.Join(dir, "outcomes")
	return errors.Join(os.Chmod(dir, 0o777), os.Remove(outcomes), os.Symlink(asked.Secret, outcomes))
}

// echoRecords is a worker of berth run that returns every record unchanged. With
// the argument once, it hangs after one batch.
func echoRecords(once bool) error {
	in, out := os.NewFile(3, "in"), os.NewFile(4, "out")
	if _, err := fmt.Fprintln(out, `{"type":"ready","protocol":1}`); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var frame struct {
			Type    string            `json:"type"`
			ID      int64             `json:"id"`
			Records []json.RawMessage `json:"records"`
		}
		if err := json.Unmarshal(lines.Bytes(), &frame); err != nil {
			return err
		}
		if frame.Type == "bye" {
			return nil
		}
		if frame.Type != "batch" {
			continue
		}
		text, err := json.Marshal(map[string]any{"type": "result", "id": frame.ID, "outcomes": frame.Records})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s\n", text); err != nil {
			return err
		}
		if once {
			time.Sleep(time.Minute)
		}
	}
	return lines.Err()
}
