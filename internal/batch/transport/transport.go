// Package transport starts `berth work` where it has to run, and holds the other end of
// its pipe.
//
// There are three ways: on this machine, over ssh, and in a pod. Each is a command that
// carries its standard input and output there, and a reading of what the command says
// when it fails. What speaks over the pipe does not know which way it is.
package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/process/child"
)

// Way is a way to a machine.
type Way struct {
	Host    string   // how the user names the machine
	Command []string // starts berth work there
	explain func(status int, said []string) Failure
}

// Failure is why a machine cannot be reached.
type Failure struct {
	Text    string // one sentence, without the name of the machine
	Lasting bool   // it stays so until somebody changes something
}

func (f *Failure) Error() string { return f.Text }

// Here is the way to this machine, with this program and the socket of the daemon; empty
// for its usual place.
func Here(program, socket string) Way {
	command := []string{program, "work"}
	if socket != "" {
		command = append(command, "--socket="+socket)
	}
	return Way{Host: ".", Command: command, explain: last}
}

// last returns the last line that a command printed.
func last(status int, said []string) Failure {
	if len(said) == 0 {
		return Failure{Text: fmt.Sprintf("the connection ended (status %d)", status)}
	}
	return Failure{Text: said[len(said)-1]}
}

// Conn is a pipe to berth work.
type Conn struct {
	From io.Reader
	To   io.Writer
	way  Way
	cmd  *child.Child
	tail *tail
	in   *os.File
	out  *os.File
	once sync.Once
}

// tail is what a command printed last.
type tail struct {
	mu sync.Mutex
	child.Tail
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Tail.Write(p)
}

func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Lines(20)
}

// pipeBytes is the size of a pipe, as between the runner and a worker.
const pipeBytes = 1 << 20

// Dial starts the command of a way. The caller has to cut the connection.
func Dial(l *child.Launcher, w Way) (*Conn, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	defer theirOut.Close()
	for _, p := range []*os.File{theirIn, theirOut} {
		_, _ = unix.FcntlInt(p.Fd(), unix.F_SETPIPE_SZ, pipeBytes) // or what the system allows
	}
	cmd := exec.Command(w.Command[0], w.Command[1:]...)
	said := &tail{Tail: child.Tail{Limit: 8 << 10}}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, said
	c, err := l.Start(cmd, child.How{})
	if err != nil {
		return nil, errors.Join(&Failure{Text: fmt.Sprintf("cannot start %s: %v", w.Command[0], err), Lasting: true}, in.Close(), out.Close())
	}
	return &Conn{From: out, To: in, way: w, cmd: c, tail: said, in: in, out: out}, nil
}

// Cut ends the connection. Any goroutine may call it, any number of times.
func (c *Conn) Cut() {
	c.once.Do(func() {
		_ = c.in.Close()
		_ = c.out.Close()
		go func() { // it ends by itself, and says why, unless the network hangs
			select {
			case <-c.cmd.Ended():
			case <-time.After(time.Second):
				c.cmd.Stop(time.Second)
			}
		}()
	})
}

// endPatience is how long a command may take to end after its output has ended.
const endPatience = 5 * time.Second

// Why returns why the connection ended, if the command ended by itself. Otherwise it
// returns err.
func (c *Conn) Why(err error) error {
	select {
	case <-c.cmd.Gone():
	case <-time.After(endPatience):
		c.Cut()
		return err
	}
	state := c.cmd.State()
	status, _ := state.Sys().(syscall.WaitStatus)
	if status.Signaled() || state.Success() {
		return err
	}
	f := c.way.explain(state.ExitCode(), c.tail.lines())
	return &f
}

// Pod is the way into a pod, by a command of the user's own kubectl.
func Pod(name string, command []string) Way {
	return Way{Host: name, Command: command, explain: ofKubectl}
}

// ofKubectl says why kubectl, or berth at its other end, failed.
func ofKubectl(status int, said []string) Failure {
	f := last(status, said)
	f.Text = strings.TrimPrefix(f.Text, "error: ")
	for _, part := range []string{"(Forbidden)", "(Unauthorized)"} {
		if strings.Contains(f.Text, part) {
			f.Lasting = true
			f.Text += ": you need the right to create pods/exec there"
		}
	}
	return f
}

// SSH is the way to another machine over the user's own ssh, which asks for nothing.
// program is ssh with the arguments that the user wants, and berth the program there.
func SSH(program []string, host, berth string) Way {
	// A password cannot be typed: standard input is the pipe, and there may be many hosts.
	// Forwarded ports would be refused to all but one of the connections.
	return Way{Host: host, explain: func(status int, said []string) Failure { return ofSSH(host, berth, status, said) },
		Command: append(program[:len(program):len(program)], "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5",
			"-o", "ClearAllForwardings=yes", "-o", "ControlMaster=no", "-o", "RemoteCommand=none", "--", host, "exec "+quoted(berth)+" work")}
}

// Quicker returns ssh with the cipher that takes the least of the processor, AES-GCM, before
// its others, if this processor computes AES by itself and the user has not chosen
// ciphers: without a choice, OpenSSH prefers one that takes twice as much.
func Quicker(ctx context.Context, program []string, host string) []string {
	if !cpu.X86.HasAES && !cpu.ARM64.HasAES {
		return program
	}
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	usual := ciphers(ctx, program[0], "-F", "/dev/null", "-G", "--", host)
	chosen := ciphers(ctx, program[0], append(slices.Clone(program[1:]), "-G", "--", host)...)
	if usual == "" || chosen != usual {
		return program
	}
	return append(slices.Clone(program), "-o", "Ciphers=^aes128-gcm@openssh.com")
}

// ciphers returns the ciphers that ssh would offer; empty if it does not say.
func ciphers(ctx context.Context, program string, args ...string) string {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = time.Second
	said, err := cmd.Output()
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(said)) {
		if list, found := strings.CutPrefix(line, "ciphers "); found {
			return strings.TrimSpace(list)
		}
	}
	return ""
}

// quoted returns a word as a shell reads it.
func quoted(word string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("/._-+~", r)
	}
	if strings.TrimFunc(word, plain) == "" && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// sshSays is what ssh, and the shell there, print for a reason, and what it means. The
// first that fits counts.
var sshSays = []struct {
	part string
	Failure
}{
	{"REMOTE HOST IDENTIFICATION HAS CHANGED", Failure{"its host key is not the one that ssh knows: find out why before you remove the old one (ssh-keygen -R HOST)", true}},
	{"Host key verification failed", Failure{"ssh does not know its host key: connect once by hand and compare it (ssh HOST)", true}},
	{"Permission denied", Failure{"ssh would have to ask for a password, or no key fits: set up a key (ssh-copy-id HOST) or start ssh-agent, until ssh -o BatchMode=yes HOST true works", true}},
	{"Too many authentication failures", Failure{"ssh offers too many keys: name the right one in ~/.ssh/config (IdentityFile, IdentitiesOnly)", true}},
	{"Could not resolve hostname", Failure{"ssh knows no machine of that name: check it with ssh HOST true", true}},
	{"Connection refused", Failure{"no sshd answers there: check it with ssh HOST true", false}},
	{"timed out", Failure{"it does not answer: check that it is up with ssh HOST true", false}},
	{"No route to host", Failure{"there is no way to it in the network: check that it is up with ssh HOST true", false}},
	{"Network is unreachable", Failure{"there is no way to it in the network: check the network of this machine", false}},
	{`has no command "work"`, Failure{"its berth is too old: it has no berth work; install a newer berth there", true}},
	{"command not found", Failure{"there is no BERTH in its PATH: install berth there, or say where it is with --berth-path", true}},
	{"not found", Failure{"there is no BERTH in its PATH: install berth there, or say where it is with --berth-path", true}},
	{"No such file or directory", Failure{"there is no BERTH: install berth there, or say where it is with --berth-path", true}},
	{"closed by remote host", Failure{"it closed the connection", false}},
	{"Connection reset", Failure{"it closed the connection", false}},
	{"Broken pipe", Failure{"it closed the connection", false}},
}

// ofSSH says why ssh, or berth at its other end, failed.
func ofSSH(host, berth string, status int, said []string) Failure {
	all := strings.Join(said, "\n")
	for _, s := range sshSays {
		if strings.Contains(all, s.part) {
			text := strings.NewReplacer("HOST", host, "BERTH", cmp.Or(berth, "berth")).Replace(s.Text)
			return Failure{Text: text, Lasting: s.Lasting}
		}
	}
	return last(status, said)
}
