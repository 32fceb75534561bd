package remote

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/batch/wire"
	"github.com/berth-gpu/berth/internal/text/term"
)

// Pipe is a pipe to `berth work` on a machine.
type Pipe struct {
	From io.Reader
	To   io.Writer
	Cut  func() // ends reads and writes
}

// Order is what a runner asks of a machine, and what it hears of it.
type Order struct {
	Host  string // how the user names the machine
	Berth string // version of this berth
	Task  Task
	Files *Files                           // of the task; nil if they are there
	Log   io.Writer                        // gets what workers print
	Say   func(format string, args ...any) // tells the user something
}

// Session is a machine that works for a runner.
type Session struct {
	order Order
	link  *wire.Link
	ready chan struct{} // closed when places can be asked for
	bill  chan gpu.Opt[gpu.Joules]
	sent  bool // whether the machine asked for the files; only the goroutine that hears uses it

	mu      sync.Mutex
	last    uint32
	asked   map[uint32]chan message // requests for places, and places whose worker starts
	places  map[uint32]*place
	refusal *Refusal
}

// Refusal is what a machine says if it cannot do what it is asked.
type Refusal struct {
	Text    string
	Lasting bool // it will say the same again, until somebody changes something
}

func (r *Refusal) Error() string { return r.Text }

// place is one that the machine granted.
type place struct {
	lost, recall chan struct{}
	process      *process // nil until it is started
	speed        float64
	trouble      string // see batch.Grant
}

// Connect greets a machine and gives it its task. It waits until the machine can grant
// places, or ctx ends.
func Connect(ctx context.Context, pipe Pipe, order Order) (*Session, error) {
	stop := context.AfterFunc(ctx, pipe.Cut)
	defer stop()
	from := bufio.NewReaderSize(pipe.From, 64<<10)
	theirs, err := readGreeting(from)
	if err != nil {
		pipe.Cut()
		return nil, err
	}
	version, err := agree(greeting{order.Berth, newest, oldest}, theirs)
	if err != nil {
		pipe.Cut()
		return nil, &Refusal{Text: err.Error(), Lasting: true}
	}
	s := &Session{
		order: order, ready: make(chan struct{}), bill: make(chan gpu.Opt[gpu.Joules], 1), last: streamFirst,
		asked: map[uint32]chan message{}, places: map[uint32]*place{},
	}
	began := make(chan struct{})
	s.link = wire.New(from, pipe.To, time.Duration(order.Task.Silence*float64(time.Second)), func(text []byte) error {
		<-began
		return s.hear(text)
	}, pipe.Cut)
	log := s.link.Open(streamLog)
	go passLines(order.Log, log) // ends with the link
	go s.watch()
	close(began)
	if err := s.link.Say(message{Type: sayTask, Version: version, Task: &order.Task}); err != nil {
		return nil, s.why()
	}
	select {
	case <-s.ready:
		return s, nil
	case <-s.link.Done():
		return nil, s.why()
	case <-ctx.Done():
		s.link.End(ctx.Err())
		return nil, ctx.Err()
	}
}

// lineBytes is the longest line of the log; a longer one is cut into several.
const lineBytes = 16 << 10

// passLines writes lines, without commands to the terminal: another machine is not
// trusted with it. If the log fails, lines are dropped: the run matters more.
func passLines(to io.Writer, from io.Reader) {
	r := bufio.NewReaderSize(from, lineBytes)
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			words := strings.Split(strings.TrimRight(string(line), "\r\n"), "\t")
			for i := range words {
				words[i] = term.Clean(words[i])
			}
			_, _ = to.Write([]byte(strings.Join(words, "\t") + "\n"))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// watch loses all places at the end of the link.
func (s *Session) watch() {
	<-s.link.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.places {
		shut(p.lost)
	}
}

// shut closes a channel if it is open. The caller holds the lock that guards it.
func shut(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// Done is closed when the machine is gone.
func (s *Session) Done() <-chan struct{} { return s.link.Done() }

// Err returns why the machine is gone.
func (s *Session) Err() error { return s.why() }

func (s *Session) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusal != nil {
		return s.refusal
	}
	return s.link.Err()
}

// hear acts on a message of the machine.
func (s *Session) hear(text []byte) error {
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("a message that is not JSON: %w", err)
	}
	switch m.Type {
	case sayFiles:
		if s.sent || s.order.Files == nil {
			return errors.New("files that were sent, or are not of the task: this is not the protocol")
		}
		s.sent = true
		go s.sendFiles()
		return nil
	case sayReady:
		shut(s.ready) // only this goroutine closes it
		return nil
	case sayNote:
		s.order.Say("%s: %s", s.order.Host, term.Clean(m.Text))
		return nil
	case sayBill:
		select {
		case s.bill <- m.Energy:
		default:
		}
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.places[m.ID]
	switch {
	case m.Type == sayRefused:
		s.refusal = &Refusal{Text: m.Text, Lasting: m.Lasting}
		go s.link.End(s.refusal)
	case m.Type == sayGrant && p != nil:
		return errors.New("a place that is granted twice: this is not the protocol")
	case m.Type == sayGrant, m.Type == sayDenied, m.Type == sayStarted:
		if answer := s.asked[m.ID]; answer != nil {
			delete(s.asked, m.ID)
			if m.Type == sayGrant && m.GPU != nil { // the next message may say that it is lost
				s.places[m.ID] = &place{lost: make(chan struct{}), recall: make(chan struct{}), speed: m.Speed}
			}
			answer <- m
		} else if m.Type == sayGrant { // nobody waits for it
			return s.link.Say(message{Type: sayRelease, ID: m.ID})
		}
	case p == nil: // it was released meanwhile
	case m.Type == sayState:
		p.speed = m.Speed
		if p.process != nil {
			p.process.setRested(time.Duration(m.Rested * float64(time.Second)))
		}
	case m.Type == sayRecall, m.Type == sayLost:
		p.trouble = cmp.Or(m.Text, p.trouble)
		if m.Type == sayRecall {
			shut(p.recall)
		} else {
			shut(p.lost)
		}
	case m.Type == sayExit:
		if p.process != nil {
			p.process.exited(m)
		}
	}
	return nil
}

// ask sends a request and returns where its answer comes.
func (s *Session) ask(m message) chan message {
	answer := make(chan message, 1)
	s.mu.Lock()
	s.asked[m.ID] = answer
	s.mu.Unlock()
	_ = s.link.Say(m) // an error ends the link, which whoever waits notices
	return answer
}

func (s *Session) sendFiles() {
	to := s.link.Open(streamFiles)
	defer to.Close()
	if err := s.order.Files.Write(to); err != nil {
		s.link.End(&Refusal{Text: err.Error(), Lasting: true})
		return
	}
	_ = to.End() // an error ends the link
}

// Acquire waits for a place on the machine, as a batch.Leaser does.
func (s *Session) Acquire(ctx context.Context, req batch.WorkerRequest) (batch.Grant, error) {
	s.mu.Lock()
	s.last++
	id := s.last
	s.mu.Unlock()
	mine := s.order.Host + "/"
	ask := message{Type: sayAcquire, ID: id, Failures: map[string]int{}}
	for _, gpu := range req.Avoid {
		if uuid, here := strings.CutPrefix(gpu, mine); here {
			ask.Avoid = append(ask.Avoid, uuid)
		}
	}
	for gpu, n := range req.Failures {
		if uuid, here := strings.CutPrefix(gpu, mine); here && n > 0 {
			ask.Failures[uuid] = n
		}
	}
	answer := s.ask(ask)
	select {
	case m := <-answer:
		return s.granted(ctx, m)
	case <-s.link.Done():
		return batch.Grant{}, s.why()
	case <-ctx.Done():
	}
	s.mu.Lock()
	delete(s.asked, id)
	delete(s.places, id)
	s.mu.Unlock()
	select {
	case m := <-answer: // it came meanwhile
		if m.Type == sayGrant {
			_ = s.link.Say(message{Type: sayRelease, ID: id})
		}
	default:
		_ = s.link.Say(message{Type: sayCancel, ID: id})
	}
	return batch.Grant{}, ctx.Err()
}

// granted returns the place in an answer. ctx is the context of the run.
func (s *Session) granted(ctx context.Context, m message) (batch.Grant, error) {
	switch {
	case m.Type == sayDenied && m.Lasting:
		return batch.Grant{}, fmt.Errorf("%w: %s", batch.ErrRefused, strings.TrimPrefix(m.Text, batch.ErrRefused.Error()+": "))
	case m.Type == sayDenied:
		return batch.Grant{}, errors.New(m.Text)
	case m.Type != sayGrant || m.GPU == nil:
		return batch.Grant{}, errors.New("a grant without a GPU: this is not the protocol")
	}
	s.mu.Lock()
	p := s.places[m.ID]
	s.mu.Unlock()
	select {
	case <-s.link.Done(): // watch may not have seen it
		s.mu.Lock()
		shut(p.lost)
		s.mu.Unlock()
	default:
	}
	device := *m.GPU
	device.Host = s.order.Host
	return batch.Grant{
		GPU: device, Lost: p.lost, Recall: p.recall, Latency: s.link.Latency,
		Start: func(prefix string, env []string) (batch.Process, error) { return s.start(ctx, m.ID, p, prefix, env) },
		Speed: func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return p.speed
		},
		Trouble: func() string {
			s.mu.Lock()
			defer s.mu.Unlock()
			return p.trouble
		},
		Release: func() {
			s.mu.Lock()
			delete(s.places, m.ID)
			s.mu.Unlock()
			_ = s.link.Say(message{Type: sayRelease, ID: m.ID}) // the link may have ended
		},
	}, nil
}

// start starts the worker of a place. It waits no longer than the run: the daemon of the
// machine may be away.
func (s *Session) start(ctx context.Context, id uint32, at *place, prefix string, env []string) (batch.Process, error) {
	p := newProcess(s, id)
	s.mu.Lock()
	at.process = p
	s.mu.Unlock()
	answer := s.ask(message{Type: sayStart, ID: id, Text: prefix, Env: slices.Clone(env)})
	select {
	case m := <-answer:
		if m.PID == 0 {
			_ = p.stream.Close()
			p.exited(message{})
			return nil, errors.New(m.Text)
		}
		p.pid = m.PID
		return p, nil
	case <-s.link.Done():
		p.Destroy()
		<-at.lost // so that the runner does not blame the worker
		return nil, fmt.Errorf("the connection to %s broke: %w", s.order.Host, s.why())
	case <-ctx.Done():
		p.Kill() // the machine keeps that in mind, and the place is released
		p.exited(message{})
		_ = p.stream.Close()
		s.mu.Lock()
		delete(s.asked, id)
		s.mu.Unlock()
		return nil, ctx.Err()
	}
}

// Report tells the machine how far the batch is.
func (s *Session) Report(b api.Batch) { _ = s.link.Say(message{Type: sayProgress, Batch: &b}) } // a machine that is gone misses it

// Close ends the session when no worker is left, and returns the energy that the workers
// used, if the machine knows it.
func (s *Session) Close(patience time.Duration) gpu.Opt[gpu.Joules] {
	defer s.link.End(io.EOF)
	if s.link.Say(message{Type: sayBye}) != nil {
		return gpu.Opt[gpu.Joules]{}
	}
	select {
	case used := <-s.bill:
		return used
	case <-s.link.Done():
	case <-time.After(patience):
	}
	return gpu.Opt[gpu.Joules]{}
}
