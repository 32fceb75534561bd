package worker

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a shell script as a worker.
func start(t *testing.T, script string, env ...string) (*Process, *strings.Builder) {
	t.Helper()
	var log strings.Builder
	s, err := NewStarter(Command{Args: []string{"/bin/sh", "-c", script}, Env: []string{"ONE=1", "TWO=2"}, Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Start("[w] ", env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Destroy(); s.Close() })
	return p, &log
}

func TestCommandThatCannotBeStarted(t *testing.T) {
	for _, test := range []struct {
		name    string
		command Command
		want    string
	}{
		{"no command", Command{}, "no worker"},
		{"no such command", Command{Args: []string{"/no/such/program"}}, "no such file"},
	} {
		if _, err := NewStarter(test.command); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want something about %q", test.name, err, test.want)
		}
	}
}

func TestWorkerHearsAndSpeaks(t *testing.T) {
	t.Parallel()
	p, log := start(t, `echo "${ONE-none} ${TWO-none} $THREE" >&4; read line <&3; echo "heard $line" >&4; echo printed; read bye <&3; exit 3`, "ONE", "THREE=3")
	said := bufio.NewReader(p)
	if line, err := said.ReadString('\n'); err != nil || line != "none 2 3\n" {
		t.Errorf("its environment is %q, %v", line, err)
	}
	if err := p.Send([]byte("me\n"), time.Minute); err != nil {
		t.Error(err)
	}
	if line, err := said.ReadString('\n'); err != nil || line != "heard me\n" {
		t.Errorf("it said %q, %v", line, err)
	}
	p.End([]byte("bye\n"), time.Hour)
	if text, signalled := p.ExitStatus(); text != "exit status 3" || signalled {
		t.Errorf("%s, %t", text, signalled)
	}
	if p.LastOutput() != "printed" || log.String() != "[w] printed\n" {
		t.Errorf("last output %q, log %q", p.LastOutput(), log)
	}
}

func TestEndKillsWhoStays(t *testing.T) {
	t.Parallel()
	p, _ := start(t, `trap "" TERM; echo ready >&4; cat /dev/zero >&4`)
	if _, err := bufio.NewReader(p).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	p.End([]byte("bye\n"), time.Millisecond)
	if text, signalled := p.ExitStatus(); text != "signal: killed" || !signalled {
		t.Errorf("%s, %t", text, signalled)
	}
}

func TestSendGivesUp(t *testing.T) {
	t.Parallel()
	p, _ := start(t, `echo ready >&4; cat /dev/zero >&4`)
	if err := p.Send(make([]byte, 2*pipeBytes), time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a worker that reads nothing took it: %v", err)
	}
}

// A process that does not die of SIGKILL, because it hangs in a driver, is left
// behind, and nobody hears it any more. Here it is one whose end nobody notices.
func TestProcessThatCannotBeKilled(t *testing.T) {
	t.Parallel()
	p, _ := start(t, `cat <&3 >&4`)
	deaf := *p
	deaf.gone = make(chan struct{})
	deaf.destroy(time.Millisecond)
	if _, err := io.ReadAll(&deaf); !errors.Is(err, os.ErrClosed) {
		t.Errorf("it is still heard: %v", err)
	}
}
