package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// settings writes a hook with a command into a berth.yaml that root left open,
// and waits until root's daemon reads it: after a hangup, after root's
// `berth config reload`, and at a start.
func settings(ctx context.Context, a *arena) (v verdict, err error) {
	for i, slip := range slips() {
		if err := slip.play(ctx, a, i, &v); err != nil {
			return v, fmt.Errorf("%s: %w", slip.name, err)
		}
	}
	return v, nil
}

// slip is a way in which root leaves a configuration open.
type slip struct {
	name string
	make func(file string) error
}

func slips() []slip {
	return []slip{
		{"a file with mode 0666", func(file string) error { return os.Chmod(file, 0o666) }},
		{"a file of the attacker", func(file string) error { return os.Chown(file, attacker, attacker) }},
		{"a file that the attacker's group can write", func(file string) error {
			return errors.Join(os.Chown(file, 0, attacker), os.Chmod(file, 0o660))
		}},
		{"a folder of the attacker", func(file string) error { return os.Chown(filepath.Dir(file), attacker, attacker) }},
		{"a folder with mode 0777", func(file string) error { return os.Chmod(filepath.Dir(file), 0o777) }},
		{"a link into a folder of the attacker", func(file string) error {
			theirs := filepath.Join(filepath.Dir(file), "theirs")
			return errors.Join(os.Mkdir(theirs, 0o755), os.Rename(file, filepath.Join(theirs, "berth.yaml")),
				os.Chown(theirs, attacker, attacker), os.Symlink("theirs/berth.yaml", file))
		}},
	}
}

func (s slip) play(ctx context.Context, a *arena, number int, v *verdict) error {
	dir, err := a.folder(fmt.Sprintf("etc-%d", number), 0o755, 0)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "berth.yaml")
	if err := os.WriteFile(file, []byte("gpu: {temp_optimal: 61}\n"), 0o600); err != nil {
		return err
	}
	d, err := a.serve(ctx, setup{flags: []string{"--config", file}})
	if err != nil {
		return err
	}
	if err := s.make(file); err != nil {
		return err
	}
	ran := filepath.Join(a.dir, fmt.Sprintf("ran-%d", number))
	if err := a.do(ctx, attacker, 0, "rewrite", askRewrite{file, fmt.Sprintf("hooks: {mine: {command: [/bin/sh, -c, 'id -u > %s'], codes: [config], severity: info}}\n", ran)}, nil); err != nil {
		return err
	}
	// ranAsRoot reports whether the command ran. If the daemon took the file over,
	// it waits for that.
	ranAsRoot := func(taken bool) bool {
		return eventually(map[bool]time.Duration{true: 20 * time.Second}[taken], func() bool {
			text, err := os.ReadFile(ran)
			return err == nil && strings.TrimSpace(string(text)) == "0"
		})
	}
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		return err
	}
	const refused, read = "was not read again", "the configuration was read again"
	if !eventually(time.Minute, func() bool { log := d.logText(); return strings.Contains(log, refused) || strings.Contains(log, read) }) {
		return fmt.Errorf("the daemon does not react to a hangup:\n%s", cut(d.logText(), 2000))
	}
	if ranAsRoot(strings.Contains(d.logText(), read)) {
		v.gain("a hangup made root's daemon run a command of the attacker, with %s", s.name)
	}
	_ = os.Remove(ran)
	reload := exec.CommandContext(ctx, a.berth, "config", "reload")
	reload.Env = append(os.Environ(), "BERTH_SOCKET="+d.socket.Address)
	said, err := reload.CombinedOutput()
	if err == nil {
		v.gain("root's berth config reload took the settings of the attacker over, with %s", s.name)
	} else if !strings.Contains(string(said), "others can change it") {
		return fmt.Errorf("berth config reload: %w: %s", err, said)
	}
	if ranAsRoot(false) {
		v.gain("root's berth config reload ran a command of the attacker, with %s", s.name)
	}
	d.kill()
	if _, err := a.serve(ctx, setup{flags: []string{"--config", file}}); err == nil {
		v.gain("root's daemon started with the settings of the attacker, with %s", s.name)
	} else if !strings.Contains(err.Error(), "others can change it") {
		return err
	}
	return nil
}

// askRewrite asks for a file with this text, where there is another one.
type askRewrite struct{ Path, Text string }

// rewriteFile writes into a file, or puts another one in its place.
func rewriteFile(_ context.Context, in json.RawMessage, say func(any)) error {
	var ask askRewrite
	if err := json.Unmarshal(in, &ask); err != nil {
		return err
	}
	target, err := filepath.EvalSymlinks(ask.Path)
	if err != nil {
		return err
	}
	err = os.WriteFile(target, []byte(ask.Text), 0o600)
	if errors.Is(err, fs.ErrPermission) {
		err = errors.Join(os.Remove(target), os.WriteFile(target, []byte(ask.Text), 0o600))
	}
	say(err == nil)
	return err
}
