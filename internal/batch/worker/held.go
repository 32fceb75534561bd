package worker

import (
	"os"
)

// waiting is a shell script that waits for a line on file descriptor 5 and then
// becomes the command in its arguments. If the other end closes without a line,
// it ends.
const waiting = `read -r begin <&5 && exec "$@" 5<&-`

// StartHeld starts a process that becomes the worker, with the same process id, when
// Begin is called. Until then, the caller can do to the process what has to be done
// before the worker begins. If this process ends first, the worker never begins.
func (s *Starter) StartHeld(prefix string, env []string) (*Process, error) {
	theirs, gate, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	p, err := s.start(prefix, env, append([]string{"/bin/sh", "-c", waiting, "berth"}, s.command.Args...), theirs)
	if err != nil {
		_ = gate.Close()
		return nil, err
	}
	s.mu.Lock()
	s.gates[p.PID()] = gate
	s.mu.Unlock()
	go func() {
		<-p.Gone()
		s.takeGate(p.PID(), gate)
	}()
	return p, nil
}

// Begin lets the process become the worker. It does nothing if the worker has begun, or
// has ended.
func (s *Starter) Begin(pid int) {
	s.mu.Lock()
	gate := s.gates[pid]
	s.mu.Unlock()
	if gate != nil {
		_, _ = gate.WriteString("begin\n") // this fails only if the process has ended
		s.takeGate(pid, gate)
	}
}

// takeGate closes a gate and forgets it.
func (s *Starter) takeGate(pid int, gate *os.File) {
	s.mu.Lock()
	if s.gates[pid] == gate {
		delete(s.gates, pid)
	}
	s.mu.Unlock()
	_ = gate.Close() // the gate may be closed already
}
