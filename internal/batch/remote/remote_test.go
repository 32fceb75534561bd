package remote

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/batch/outcome"
	"github.com/berth-gpu/berth/internal/batch/record"
	"github.com/berth-gpu/berth/internal/batch/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shop is a Workshop of some places, whose workers are a shell script.
type shop struct {
	*worker.Starter
	free   chan int
	recall chan struct{}
	hold   chan struct{} // if not nil, the first report waits for it
	away   chan struct{} // if not nil, the daemon is away while workers start; closed when one does

	mu       sync.Mutex
	reported []api.Batch
	released int
	err      error
}

func (s *shop) Acquire(ctx context.Context, req batch.WorkerRequest) (batch.Grant, error) {
	if s.err != nil {
		return batch.Grant{}, s.err
	}
	select {
	case n := <-s.free:
		if slices.Contains(req.Avoid, fmt.Sprint("GPU-", n)) {
			s.free <- n
			return batch.Grant{}, fmt.Errorf("%w: it is to be avoided", batch.ErrRefused)
		}
		return batch.Grant{
			GPU: batch.GPU{UUID: fmt.Sprint("GPU-", n), Index: n, Name: "test"}, Env: []string{"PLACE=" + fmt.Sprint(n)}, Recall: s.recall,
			Started: func(int) error { // a daemon is asked with the context of the grant
				if s.away != nil {
					close(s.away)
					<-ctx.Done()
				}
				return ctx.Err()
			},
			Why: func(bool) string { return "the test says so" },
			Release: func() {
				s.mu.Lock()
				s.released++
				s.mu.Unlock()
				s.free <- n
			},
		}, nil
	case <-ctx.Done():
		return batch.Grant{}, ctx.Err()
	}
}

func (s *shop) Start(_ *batch.Grant, prefix string, env []string) (batch.Process, error) {
	return s.Starter.Start(prefix, env)
}

func (s *shop) Report(b api.Batch) {
	if s.hold != nil && b.Done == 1 {
		<-s.hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reported = append(s.reported, b)
}

func (s *shop) Close() gpu.Opt[gpu.Joules] {
	s.Starter.Close()
	return gpu.Some(gpu.Joules(7))
}

// echo is a worker that answers with its records, and ends if one is "die".
const echo = `echo "place $PLACE"; echo '{"type":"ready","protocol":1}' >&4
while read -r line <&3; do
  case $line in
  *bye*) exit 0;;
  *'"die"'*) echo dying; exit 3;;
  esac
  id=${line#*\"id\":}; id=${id%%,*}; records=${line#*\"records\":}; records=${records%\}}
  printf '{"type":"result","id":%s,"outcomes":%s}\n' "$id" "$records" >&4
done`

// machine is a host of a test.
type machine struct {
	shop   *shop
	served chan error
	conn   net.Conn // its end
	log    *syncBuilder
	notes  *syncBuilder
}

type syncBuilder struct {
	mu sync.Mutex
	strings.Builder
}

func (b *syncBuilder) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Builder.Write(p)
}

func (b *syncBuilder) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Builder.String()
}

// connect starts a machine with some places and connects to it.
func connect(t *testing.T, places int, files *Files) (*Session, *machine, error) {
	t.Helper()
	m := &machine{shop: &shop{free: make(chan int, places), recall: make(chan struct{})}, served: make(chan error, 1), log: &syncBuilder{}, notes: &syncBuilder{}}
	for n := range places {
		m.shop.free <- n
	}
	ours, theirs := net.Pipe()
	m.conn = theirs
	cache := t.TempDir()
	go func() {
		m.served <- Serve(context.Background(), theirs, theirs, Site{Berth: "there", Cache: cache,
			Open: func(_ context.Context, task Task, folder string, log io.Writer, say func(string, ...any)) (Workshop, error) {
				if task.Folder == "/none" {
					return nil, &Refusal{Text: "there is no such folder", Lasting: true}
				}
				say("works in %s", filepath.Base(folder))
				var err error
				m.shop.Starter, err = worker.NewStarter(worker.Command{Args: task.Command, Dir: folder, Log: log})
				return m.shop, err
			}})
		_ = theirs.Close()
	}()
	order := Order{Host: "gpu1", Berth: "here", Files: files, Log: m.log,
		Task: Task{Command: []string{"/bin/sh", "-c", echo}, Folder: "/", PerGPU: 1, Silence: 600},
		Say:  func(format string, args ...any) { fmt.Fprintf(m.notes, format+"\n", args...) },
	}
	if files != nil {
		order.Task.Files, order.Task.Folder = files.Hash, ""
		order.Task.Command = []string{"/bin/sh", "worker.sh"}
	}
	s, err := Connect(t.Context(), Pipe{From: ours, To: ours, Cut: func() { _ = ours.Close() }}, order)
	t.Cleanup(func() {
		if s != nil {
			s.Close(time.Minute)
		}
		_ = ours.Close()
		if err := <-m.served; err != nil {
			t.Logf("the machine: %v", err)
		}
	})
	return s, m, err
}

// run runs a batch on a session.
func run(t *testing.T, s *Session, input string, o batch.Options) (batch.Summary, string) {
	t.Helper()
	o.Input, o.Output = record.Spec{Stream: strings.NewReader(input)}, filepath.Join(t.TempDir(), "out.jsonl")
	o.Shape = outcome.Shape{Ordered: true}
	if o.Leases == nil {
		o.Leases = s
	}
	r, err := batch.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := r.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(o.Output)
	if err != nil {
		t.Fatal(err)
	}
	return sum, string(out)
}

func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"n\":%d}\n", i)
	}
	return b.String()
}

// A batch on another machine has the outcomes of one on this machine: a record that
// breaks workers is found, and the others have theirs.
func TestBatchOnAnotherMachine(t *testing.T) {
	s, m, err := connect(t, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	const bad = "\"die\"\n"
	sum, out := run(t, s, lines(3000)+bad+lines(10), batch.Options{Batch: 16, Backoff: time.Millisecond})
	if sum.Records != 3011 || sum.Failed != 1 || sum.Marked != 1 || !strings.HasPrefix(out, lines(3000)+`{"_error"`) && !strings.Contains(out, `"_input":"die"`) {
		t.Errorf("%+v", sum)
	}
	if got := strings.Count(out, "\n"); got != 3011 {
		t.Errorf("%d outcomes", got)
	}
	if !strings.Contains(out, "exit status 3, because the test says so") || !strings.Contains(out, "it last printed: ") {
		t.Errorf("the end of the worker is not told: %.300q", out[strings.Index(out, "_error"):])
	}
	for _, g := range sum.GPUs {
		if g.Host != "gpu1" || g.Name != "test" {
			t.Errorf("%+v", g)
		}
	}
	if log := m.log.String(); !strings.Contains(log, "[worker 1, GPU ") || !strings.Contains(log, " of gpu1] place ") {
		t.Errorf("the log is %.200q", log)
	}
	var clean strings.Builder
	passLines(&clean, strings.NewReader("o\tne\r\n\x1b[2Jtwo\n"+strings.Repeat("x", lineBytes)+"\nend"))
	if want := "o\tne\n?[2Jtwo\n" + strings.Repeat("x", lineBytes) + "\n\nend\n"; clean.String() != want {
		t.Errorf("%.60q", clean.String())
	}
	if s.link.Latency() <= 0 {
		t.Error("its distance is not known")
	}
	s.Report(api.Batch{ID: "batch-x"})
	if used := s.Close(time.Minute); used != gpu.Some(gpu.Joules(7)) {
		t.Errorf("it used %v", used)
	}
	m.shop.mu.Lock()
	defer m.shop.mu.Unlock()
	if len(m.shop.free) != 2 || len(m.shop.reported) != 1 {
		t.Errorf("%d places are free, %d reports", len(m.shop.free), len(m.shop.reported))
	}
}

// Reports reach the daemon in the order in which the runner made them, however long it
// takes.
func TestReportsKeepTheirOrder(t *testing.T) {
	s, m, err := connect(t, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.shop.hold = make(chan struct{})
	for done := range 5 {
		s.Report(api.Batch{ID: "batch-x", Done: int64(1 + done)})
	}
	g, err := s.Acquire(t.Context(), batch.WorkerRequest{}) // whose answer comes when the machine has heard the reports
	if err != nil {
		t.Fatal(err)
	}
	g.Release()
	close(m.shop.hold)
	s.Close(time.Minute)
	m.shop.mu.Lock()
	defer m.shop.mu.Unlock()
	var got []int64
	for _, b := range m.shop.reported {
		got = append(got, b.Done)
	}
	if !slices.IsSorted(got) || got[len(got)-1] != 5 {
		t.Errorf("the reports came as %v", got)
	}
}

// When a machine goes, its records go to others without blame, and the machine ends what
// it had started.
func TestMachineThatGoes(t *testing.T) {
	s, m, err := connect(t, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	good, _, err := connect(t, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	both := &several{sessions: []*Session{s, good}}
	cut := sync.OnceFunc(func() { _ = m.conn.Close() })
	var mu sync.Mutex
	var told []string
	sum, out := run(t, nil, lines(5000), batch.Options{Batch: 16, Backoff: time.Millisecond, CommitEvery: time.Millisecond, Leases: both, Notify: func(e batch.Event) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, string(e.Code))
		if e.Code == batch.EventCommitted {
			cut()
		}
	}})
	if sum.Records != 5000 || sum.Failed != 0 || sum.Marked != 0 || out != lines(5000) {
		t.Errorf("%+v", sum)
	}
	if slices.Contains(told, string(batch.EventFailed)) {
		t.Errorf("a worker was blamed: %v", told)
	}
	cut() // nothing may have been committed before the end
	<-s.Done()
	if err := <-m.served; err == nil {
		t.Log("the machine noticed nothing") // it had ended
	}
	m.served <- nil
	m.shop.mu.Lock()
	defer m.shop.mu.Unlock()
	if len(m.shop.free) != 1 {
		t.Error("its place was not given back")
	}
}

// several is a Leaser of several sessions, one after the other.
type several struct {
	sessions []*Session
	next     int
}

func (l *several) Acquire(ctx context.Context, req batch.WorkerRequest) (batch.Grant, error) {
	s := l.sessions[l.next%len(l.sessions)]
	l.next++
	select {
	case <-s.Done():
		return l.sessions[1].Acquire(ctx, req)
	default:
		return s.Acquire(ctx, req)
	}
}

func TestRefusals(t *testing.T) {
	s, m, err := connect(t, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), batch.WorkerRequest{Avoid: []string{"gpu1/GPU-0"}}); !errors.Is(err, batch.ErrRefused) {
		t.Errorf("a GPU that is avoided: %v", err)
	}
	g, err := s.Acquire(t.Context(), batch.WorkerRequest{Avoid: []string{"gpu2/GPU-0"}, Failures: map[string]int{"gpu1/GPU-0": 1}})
	if err != nil || g.GPU.ID() != "gpu1/GPU-0" || g.GPU.String() != "GPU 0 of gpu1" || g.Speed() != 1 {
		t.Fatalf("%+v, %v", g.GPU, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Acquire(ctx, batch.WorkerRequest{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that is given up: %v", err)
	}
	close(m.shop.recall)
	<-g.Recall
	g.Release()
	g, err = s.Acquire(t.Context(), batch.WorkerRequest{})
	if err != nil {
		t.Errorf("the place was not given back: %v", err)
	}
	<-g.Recall // this one was wanted back when it was granted
	g.Release()
}

// A place may be lost or wanted back before whoever asked for it has read the grant.
func TestPlaceThatIsLostAtOnce(t *testing.T) {
	s, _, err := connect(t, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer := s.ask(message{Type: sayAcquire, ID: 99})
	for _, text := range []string{`{"type":"grant","id":99,"gpu":{"gpu":"GPU-0"}}`, `{"type":"recall","id":99,"text":"is in quarantine: XID 79"}`, `{"type":"lost","id":99}`} {
		if err := s.hear([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	g, err := s.granted(t.Context(), <-answer)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]<-chan struct{}{"wanted back": g.Recall, "lost": g.Lost} {
		select {
		case <-c:
		default:
			t.Errorf("it is not known that the place is %s", what)
		}
	}
	if got := g.Trouble(); got != "is in quarantine: XID 79" {
		t.Errorf("it is not known why: %q", got)
	}
	g.Release()
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		ours, theirs greeting
		want         int
		text         string
	}{
		{greeting{"a", 1, 1}, greeting{"b", 1, 1}, 1, ""},
		{greeting{"a", 3, 2}, greeting{"b", 2, 1}, 2, ""}, // one older is spoken
		{greeting{"a", 2, 1}, greeting{"b", 3, 2}, 2, ""},
		{greeting{"a", 3, 2}, greeting{"b", 1, 1}, 0, "its berth (b) is too old for this one (a)"},
		{greeting{"a", 1, 1}, greeting{"b", 3, 2}, 0, "its berth (b) is too new for this one (a)"},
	} {
		got, err := agree(c.ours, c.theirs)
		if got != c.want || (err == nil) != (c.text == "") || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: %d, %v", c, got, err)
		}
	}
	if newest-oldest > 1 || newest < oldest {
		t.Errorf("versions %d to %d: a berth speaks its own version and the one before", oldest, newest)
	}
}

func TestGreeting(t *testing.T) {
	var b strings.Builder
	if err := (greeting{"x", 2, 1}).write(&b); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ said, err string }{
		{b.String(), ""},
		{"Welcome!\nno end of line" + b.String(), ""},
		{strings.Repeat("x", 3*noiseBytes) + b.String(), "its shell may print a lot"},
		{"", "did not answer"},
		{"berth work: nonsense\n", "did not answer as it should"},
	} {
		g, err := readGreeting(bufio.NewReaderSize(strings.NewReader(c.said), 1024))
		if c.err == "" && (err != nil || g != greeting{"x", 2, 1}) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%.40q: %+v, %v", c.said, g, err)
		}
	}
}

// Files come along once, by their hash.
func TestFiles(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), mode)); err != nil {
			t.Fatal(err)
		}
	}
	write("worker.sh", "test -x lib/tool && test \"$(cat lib/link)\" = data || exit 9\n"+echo, 0o600)
	write("lib/tool", "#!/bin/sh", 0o700)
	write("lib/data", "data", 0o600)
	if err := os.Symlink("data", filepath.Join(root, "lib/link")); err != nil {
		t.Fatal(err)
	}
	files, err := PackFiles(root, []string{"worker.sh", "lib", filepath.Join(root, "lib/data")})
	if err != nil {
		t.Fatal(err)
	}
	again, err := PackFiles(root, []string{"lib/", "./worker.sh"})
	if err != nil || again.Hash != files.Hash || files.Bytes == 0 {
		t.Errorf("the same files: %+v and %+v, %v", files, again, err)
	}
	s, m, err := connect(t, 1, files)
	if err != nil {
		t.Fatal(err)
	}
	if sum, out := run(t, s, lines(10), batch.Options{}); sum.Failed != 0 || out != lines(10) {
		t.Errorf("%+v", sum)
	}
	if note := m.notes.String(); !strings.Contains(note, "gpu1: works in "+files.Hash) {
		t.Errorf("it notes %q", note)
	}

	cache := t.TempDir()
	fetched := 0
	fetch := func() io.Reader {
		fetched++
		r, w := io.Pipe()
		go func() { _ = w.CloseWithError(files.Write(w)) }()
		return r
	}
	for range 2 {
		if folder, err := keepFiles(cache, files.Hash, fetch); err != nil || folder != filepath.Join(cache, files.Hash) {
			t.Fatalf("%s, %v", folder, err)
		}
	}
	if fetched != 1 {
		t.Errorf("they were fetched %d times", fetched)
	}
	old := time.Now().Add(-2 * unusedFor)
	if err := os.Chtimes(filepath.Join(cache, files.Hash), old, old); err != nil {
		t.Fatal(err)
	}
	other := hex.EncodeToString(make([]byte, 32))
	if _, err := keepFiles(cache, other, fetch); err == nil || !strings.Contains(err.Error(), "changed while they were sent") {
		t.Errorf("other files: %v", err)
	}
	if entries, _ := os.ReadDir(cache); len(entries) != 0 {
		t.Errorf("unused files are kept: %v", entries)
	}
	if _, err := keepFiles(cache, "../../etc", fetch); err == nil {
		t.Error("a hash that is a path is taken")
	}
	for _, bad := range []string{"../x", "/etc/passwd", "none"} {
		if _, err := PackFiles(root, []string{bad}); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(root, "lib/out")); err != nil {
		t.Fatal(err)
	}
	if _, err := PackFiles(root, []string{"lib"}); err == nil || !strings.Contains(err.Error(), "does not come along") {
		t.Errorf("a link to elsewhere: %v", err)
	}
}

// Files that a long session uses are not removed by another one.
func TestFilesInUseAreKept(t *testing.T) {
	cache := t.TempDir()
	folder := filepath.Join(cache, "used")
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		if err := errors.Join(os.Mkdir(folder, 0o700), os.Chtimes(folder, now, now)); err != nil {
			t.Fatal(err)
		}
		go keepUsed(t.Context(), folder)
		time.Sleep(2 * unusedFor)
		synctest.Wait()
		dropUnused(cache, time.Now())
		if _, err := os.Stat(folder); err != nil {
			t.Error(err)
		}
	})
}

// A run can be stopped while the daemon of a machine is away and its worker does not begin.
func TestStopWhileAWorkerDoesNotBegin(t *testing.T) {
	s, m, err := connect(t, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.shop.away = make(chan struct{})
	r, err := batch.Open(t.Context(), batch.Options{
		Input: record.Spec{Stream: strings.NewReader(lines(3))}, Output: filepath.Join(t.TempDir(), "out.jsonl"), Leases: s,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		<-m.shop.away
		stop()
	}()
	if sum, err := r.Run(ctx); !errors.Is(err, batch.ErrStopped) || sum.Marked > 0 {
		t.Errorf("%+v, %v", sum, err)
	}
	m.shop.free <- <-m.shop.free // the place is given back
}

// closes is a Workshop that only closes.
type closes struct {
	Workshop
	closed bool
}

func (c *closes) Close() gpu.Opt[gpu.Joules] {
	c.closed = true
	return gpu.Opt[gpu.Joules]{}
}

// A workshop that opens while the session ends is closed.
func TestWorkshopThatOpensLate(t *testing.T) {
	ours, theirs := net.Pipe()
	opens, shop := make(chan struct{}), &closes{}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = Serve(context.Background(), theirs, theirs, Site{Berth: "there", Cache: t.TempDir(),
			Open: func(ctx context.Context, _ Task, _ string, _ io.Writer, _ func(string, ...any)) (Workshop, error) {
				close(opens)
				<-ctx.Done()
				return shop, nil
			}})
		_ = theirs.Close()
	}()
	go func() {
		<-opens
		_ = ours.Close()
	}()
	s, err := Connect(t.Context(), Pipe{From: ours, To: ours, Cut: func() { _ = ours.Close() }}, Order{
		Host: "gpu1", Berth: "here", Log: io.Discard, Task: Task{Folder: "/", PerGPU: 1, Silence: 600}, Say: func(string, ...any) {},
	})
	if err == nil {
		s.Close(time.Minute)
		t.Error("the session began")
	}
	<-served
	if !shop.closed {
		t.Error("the workshop is open")
	}
}

// A machine that asks for files that are not there, or again and again, does not speak the
// protocol: its link ends, and nothing else does.
func TestFilesThatAreNotToBeSent(t *testing.T) {
	for name, files := range map[string]*Files{"none": nil, "sent": {}} {
		s := &Session{order: Order{Files: files}, sent: files != nil, places: map[uint32]*place{3: {}}}
		for _, said := range []string{`{"type":"files"}`, `{"type":"grant","id":3,"gpu":{}}`} {
			if err := s.hear([]byte(said)); err == nil || !strings.Contains(err.Error(), "not the protocol") {
				t.Errorf("%s: %s: %v", name, said, err)
			}
		}
	}
}
