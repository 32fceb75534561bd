package remote

import (
	"io"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/batch/wire"
)

// process is a worker on another machine, as the runner sees it.
//
// If the link ends, the runner does not hear that the worker is gone; it loses the place
// instead, and kills the worker. Until then reads and writes wait: a worker whose pipe
// breaks by itself would be one that died, and its records would be blamed.
type process struct {
	session *Session
	id      uint32
	stream  *wire.Stream
	pid     int
	gone    chan struct{}
	killed  chan struct{}

	mu    sync.Mutex
	how   message // how it ended
	rests []rest
}

// rest is for how long a process had been stopped at a moment.
type rest struct {
	at    time.Time
	total time.Duration
}

// mostRests is how many rests of a process are kept: one a second.
const mostRests = 3600

func newProcess(s *Session, id uint32) *process {
	p := &process{session: s, id: id, stream: s.link.Open(id), gone: make(chan struct{}), killed: make(chan struct{})}
	go func() {
		select {
		case <-p.gone:
			return
		case <-s.link.Done():
		}
		<-p.killed
		p.exited(message{Text: "the connection to " + s.order.Host + " broke"})
	}()
	return p
}

// exited notes the end of the process.
func (p *process) exited(how message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.gone:
	default:
		p.how = how
		close(p.gone)
	}
}

func (p *process) setRested(total time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rests = append(p.rests[max(0, len(p.rests)+1-mostRests):], rest{time.Now(), total})
}

// Rested implements batch.Process.
func (p *process) Rested(since time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var before, total time.Duration
	for _, r := range p.rests {
		if total = r.total; r.at.Before(since) {
			before = r.total
		}
	}
	return total - before
}

// PID implements batch.Process.
func (p *process) PID() int { return p.pid }

// Alive implements batch.Process.
func (p *process) Alive() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// Gone implements batch.Process.
func (p *process) Gone() <-chan struct{} { return p.gone }

// Send implements batch.Process.
func (p *process) Send(data []byte, timeout time.Duration) error {
	err := p.stream.Send(data, timeout)
	if err != nil {
		p.awaitKill()
	}
	return err
}

// Read implements batch.Process.
func (p *process) Read(to []byte) (int, error) {
	n, err := p.stream.Read(to)
	if err != nil {
		p.awaitKill()
	}
	return n, err
}

// awaitKill waits until the runner has killed the process, if the link has ended.
func (p *process) awaitKill() {
	select {
	case <-p.session.link.Done():
	default:
		return
	}
	select {
	case <-p.killed:
	case <-p.gone:
	}
}

// End implements batch.Process.
func (p *process) End(last []byte, grace time.Duration) {
	_ = p.session.link.Say(message{Type: sayEnd, ID: p.id, Text: string(last), Seconds: grace.Seconds()}) // it is killed anyway
	select {
	case <-p.gone:
	case <-p.session.link.Done():
	case <-time.After(2*grace + killPatience):
	}
	p.Destroy()
}

// Kill implements batch.Process.
func (p *process) Kill() {
	_ = p.session.link.Say(message{Type: sayKill, ID: p.id}) // it is killed with the link, too
	p.mu.Lock()
	defer p.mu.Unlock()
	shut(p.killed)
}

// killPatience is how long another machine may take to say that a process is gone.
const killPatience = 15 * time.Second

// Destroy implements batch.Process.
func (p *process) Destroy() {
	p.Kill()
	select {
	case <-p.gone:
	case <-time.After(killPatience):
	}
	_ = p.stream.Close()
}

// ExitStatus implements batch.Process.
func (p *process) ExitStatus() (text string, signalled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text = p.how.Text
	if p.how.Why != "" {
		text += ", because " + p.how.Why
	}
	return text, p.how.Signalled
}

// LastOutput implements batch.Process.
func (p *process) LastOutput() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.how.Last
}

var _ io.Reader = (*process)(nil)
