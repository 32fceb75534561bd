package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/process"
)

// planRun is a launcher that makes a program the only run of a plan.
func planRun(t *testing.T) (launcher, *client.Client) {
	t.Helper()
	ways, c := launchers(t)
	file := filepath.Join(t.TempDir(), "well.yaml")
	if err := os.WriteFile(file, []byte("pipelines: [{name: well, steps: [{name: one, input: cupy, output: cupy, memory_mb: 1000}]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return launcher{"plan --run", []string{ways[1].with[0], "plan", file, "--no-probe", "--run", "--"}, ways[0].env}, c
}

// atTerminal starts a command in a session of its own, at a terminal.
func atTerminal(t *testing.T, env []string, words ...string) (shell *exec.Cmd, keyboard *os.File, said *bytes.Buffer) {
	t.Helper()
	keyboard, screen := openTerminal(t)
	shell, said = exec.Command(words[0], words[1:]...), &bytes.Buffer{}
	shell.Env = env
	shell.Stdin, shell.Stdout, shell.Stderr = screen, screen, said
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	return shell, keyboard, said
}

// A run that is alone has the keys of the terminal to itself, and what they do
// to it they do to the command.
func TestPlanRunAtATerminal(t *testing.T) {
	way, c := planRun(t)
	for keys, want := range map[string]string{
		"\x03": "exit 130", "\x1c": "exit 131", "\x1a": "stopped by stopped", "\x04": "exit 0",
	} {
		t.Run(want, func(t *testing.T) {
			program := way.command("sh", "-c", "ulimit -c 0; tty >/dev/null && echo ready; exec cat")
			shell, keyboard, said := atTerminal(t, way.env, append([]string{sessionCommand(t)}, program.Args...)...)
			if line, err := bufio.NewReader(keyboard).ReadString('\n'); !strings.HasPrefix(line, "ready") {
				t.Fatalf("it said %q, %v", line, err)
			}
			if _, err := keyboard.WriteString(keys); err != nil {
				t.Fatal(err)
			}
			if err := shell.Wait(); err != nil || said.String() != want {
				t.Errorf("%s, %v; want %s", said.String(), err, want)
			}
		})
	}
	look(t, c, "no lease", func(all api.Leases) bool { return len(all.Leases) == 0 })
}

// What a run leaves behind ends with it at a terminal too: there is no lease for
// it any more.
func TestPlanRunLeavesNothingAtATerminal(t *testing.T) {
	way, _ := planRun(t)
	program := way.command("sh", "-c", "sleep 1000 & echo $!; sh -c 'sleep 1000 & echo $!'")
	script := `"$@" 2>/dev/null; echo ended with $?; read enter` // the terminal would end them with its session
	shell, keyboard, said := atTerminal(t, way.env, append([]string{"sh", "-c", script, "sh"}, program.Args...)...)
	var left []int
	for reader := bufio.NewReader(keyboard); ; {
		line, err := reader.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			if strings.TrimSpace(line) != "ended with 0" || len(left) != 2 {
				t.Errorf("it said %q after %v", line, left)
			}
			break
		}
		left = append(left, pid)
	}
	for _, pid := range left {
		ends(t, pid)
	}
	if _, err := keyboard.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	if err := shell.Wait(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
}

// ends waits until a process is no more; it was killed by now.
func ends(t *testing.T, pid int) {
	t.Helper()
	table, late := process.Proc(), time.Now().Add(patience)
	for {
		id, err := table.Identify(pid)
		if err != nil || !table.Alive(id) {
			return
		}
		if time.Now().After(late) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d is left", pid)
		}
		runtime.Gosched()
	}
}

// A shell can stop a run, and let it go on in the background and in the
// foreground, like any other program.
func TestPlanRunUnderAShell(t *testing.T) {
	way, c := planRun(t)
	env := append(way.env, "PS1=$ ", "TERM=dumb", "HISTFILE=")
	shell, keyboard, said := atTerminal(t, env, "bash", "--norc", "--noprofile", "--noediting", "-i")
	reader := bufio.NewReader(keyboard)
	var screen strings.Builder
	await := func(what string) {
		t.Helper()
		for sought := regexp.MustCompile(what); ; {
			line, err := reader.ReadString('\n')
			screen.WriteString(line)
			if err != nil {
				t.Fatalf("wait for %q: %v, on the screen:\n%s", what, err, screen.String())
			}
			if sought.MatchString(line) {
				return
			}
		}
	}
	press := func(keys string) {
		t.Helper()
		if _, err := keyboard.WriteString(keys); err != nil {
			t.Fatal(err)
		}
	}
	press("exec 2>&1\n")
	press(fmt.Sprintf("%s sh -c 'echo it is $((1+1)); exec sed -u s/^/heard\\ /' | cat; echo ended with $? ${PIPESTATUS[0]}\n", strings.Join(way.with, " ")))
	await("it is 2")
	press("\x1a")
	await("ended with 148")
	press("jobs\n")
	await("Stopped")
	press("bg\n") // it reads, so it is stopped again
	press("until jobs | grep -q Stopped; do :; done; echo it is $((2+2))\n")
	await("it is 4")
	press("fg\n")
	press("typed\n")
	await("heard typed")
	press("\x04")
	press("echo it is $((4+4)) $?\n")
	await("it is 8 0")
	look(t, c, "no lease", func(all api.Leases) bool { return len(all.Leases) == 0 })
	press("exit 0\n")
	if err := shell.Wait(); err != nil {
		t.Errorf("%v, %s, on the screen:\n%s", err, said, screen.String())
	}
}
