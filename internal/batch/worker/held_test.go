package worker

import (
	"bufio"
	"io"
	"strconv"
	"strings"
	"testing"
)

// hold returns a starter of a script, and a worker that waits.
func hold(t *testing.T, script string) (*Starter, *Process) {
	t.Helper()
	s, err := NewStarter(Command{Args: []string{"/bin/sh", "-c", script, "name", "an argument"}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.StartHeld("[w] ", []string{"ONE=1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Destroy(); s.Close() })
	return s, p
}

// A worker that is held begins when it may, in the same process, with its
// arguments, its pipes and its environment, and with nothing beside them.
func TestHeldWorkerBegins(t *testing.T) {
	s, p := hold(t, `[ -e /proc/$$/fd/5 ]; echo "$$ $1 $ONE $?" >&4; read line <&3; echo "heard $line" >&4`)
	s.Begin(p.PID())
	s.Begin(p.PID()) // it has begun
	said := bufio.NewReader(p)
	line, err := said.ReadString('\n')
	pid, rest, _ := strings.Cut(line, " ")
	if err != nil || rest != "an argument 1 1\n" || pid != strconv.Itoa(p.PID()) {
		t.Errorf("process %d says %q, %v", p.PID(), line, err)
	}
	if err := p.Send([]byte("work\n"), killTimeout); err != nil {
		t.Fatal(err)
	}
	if line, err := said.ReadString('\n'); line != "heard work\n" || err != nil {
		t.Errorf("it says %q, %v", line, err)
	}
	<-p.Gone()
}

// A worker that may not begin never does anything.
func TestHeldWorkerThatNeverBegins(t *testing.T) {
	s, p := hold(t, `echo begun >&4`)
	p.Kill()
	<-p.Gone()
	s.Begin(p.PID())
	if said, _ := io.ReadAll(p); len(said) > 0 {
		t.Errorf("it says %q", said)
	}
	s2, p2 := hold(t, `echo begun >&4`)
	s2.mu.Lock()
	gate := s2.gates[p2.PID()]
	s2.mu.Unlock()
	s2.takeGate(p2.PID(), gate) // as when the process that holds it ends
	<-p2.Gone()
	if said, _ := io.ReadAll(p2); len(said) > 0 {
		t.Errorf("it says %q", said)
	}
}
