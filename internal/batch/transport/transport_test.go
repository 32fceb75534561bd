package transport

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/cpu"

	"github.com/berth-gpu/berth/internal/process/child"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What ssh says becomes a sentence that says what to do.
func TestWhatSSHSays(t *testing.T) {
	for _, c := range []struct {
		status  int
		said    string
		want    string
		lasting bool
	}{
		{255, "me@gpu1: Permission denied (publickey,password).", "ssh would have to ask for a password", true},
		{255, "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", "not the one that ssh knows", true},
		{255, "No ED25519 host key is known for gpu1 and you have requested strict checking.\nHost key verification failed.", "does not know its host key: connect once by hand and compare it (ssh gpu1)", true},
		{255, "ssh: Could not resolve hostname gpu1: Name or service not known", "no machine of that name", true},
		{255, "ssh: connect to host gpu1 port 22: Connection refused", "no sshd answers", false},
		{255, "ssh: connect to host gpu1 port 22: Connection timed out", "does not answer", false},
		{255, "Connection to gpu1 closed by remote host.", "it closed the connection", false},
		{127, "bash: line 1: exec: berth: not found", "there is no berth in its PATH", true},
		{127, "sh: 1: exec: berth: not found", "there is no berth in its PATH", true},
		{2, "berth: berth has no command \"work\"\n  see berth --help", "its berth is too old", true},
		{255, "", "the connection ended (status 255)", false},
		{1, "something else\nbroke", "broke", false},
	} {
		f := ofSSH("gpu1", "berth", c.status, strings.FieldsFunc(c.said, func(r rune) bool { return r == '\n' }))
		if !strings.Contains(f.Text, c.want) || f.Lasting != c.lasting {
			t.Errorf("%q: %q, lasting %t; want %q", c.said, f.Text, f.Lasting, c.want)
		}
	}
}

func TestSSHCommand(t *testing.T) {
	way := SSH([]string{"ssh", "-F", "config"}, "me@gpu1", "/opt/my berth/it's")
	got := strings.Join(way.Command, " ")
	if !strings.HasPrefix(got, "ssh -F config -T ") || !strings.Contains(got, " BatchMode=yes ") ||
		!slices.Equal(way.Command[len(way.Command)-3:], []string{"--", "me@gpu1", `exec '/opt/my berth/it'\''s' work`}) {
		t.Errorf("%q", way.Command)
	}
	if plain := SSH([]string{"ssh"}, "gpu1", "~/bin/berth").Command; plain[len(plain)-1] != "exec ~/bin/berth work" {
		t.Errorf("%q", plain)
	}
}

// Ciphers that the user has chosen stay.
func TestQuicker(t *testing.T) {
	if !cpu.X86.HasAES && !cpu.ARM64.HasAES {
		t.Skip("this processor does not compute AES by itself")
	}
	const says = `case " $* " in *" -F mine "*) echo "ciphers aes256-ctr" ;; *" -F none "*) exit 255 ;; *) echo "port 22"; echo "ciphers chacha,aes" ;; esac`
	for _, c := range []struct {
		args   []string
		faster bool
	}{{nil, true}, {[]string{"-F", "mine"}, false}, {[]string{"-F", "none"}, false}} {
		program := append([]string{script(t, says)}, c.args...)
		got := Quicker(t.Context(), program, "gpu1")
		if faster := slices.Contains(got, "Ciphers=^aes128-gcm@openssh.com"); faster != c.faster || !slices.Equal(got[:len(program)], program) {
			t.Errorf("%q", got)
		}
	}
}

// script returns a program that is a shell script.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ssh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDial(t *testing.T) {
	l := child.NewLauncher()
	defer l.Close()
	c, err := Dial(l, SSH([]string{script(t, "cat")}, "gpu1", "berth"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.To.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	hello := make([]byte, 5)
	if _, err := io.ReadFull(c.From, hello); err != nil || string(hello) != "hello" {
		t.Errorf("%q, %v", hello, err)
	}
	c.Cut()
	c.Cut()
	if err := c.Why(io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("a connection that was cut ended because %v", err)
	}

	c, err = Dial(l, SSH([]string{script(t, "echo 'Permission denied (password).' >&2; exit 255")}, "gpu1", "berth"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(c.From)
	failure := (*Failure)(nil)
	if why := c.Why(err); !errors.As(why, &failure) || !failure.Lasting || !strings.Contains(failure.Text, "password") {
		t.Errorf("%v", why)
	}
	c.Cut()
	if _, err := Dial(l, Way{Host: "gpu1", Command: []string{"/no/such/program"}}); !errors.As(err, &failure) || !failure.Lasting {
		t.Errorf("a program that is not there: %v", err)
	}
	if here := Here("/bin/berth", "/s"); strings.Join(here.Command, " ") != "/bin/berth work --socket=/s" {
		t.Errorf("%q", here.Command)
	}
}
