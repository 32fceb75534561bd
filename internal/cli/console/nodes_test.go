package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/text/term"
)

// world returns a console without a terminal, and what it writes.
func world() (con *Console, out, errs *bytes.Buffer) {
	out, errs = new(bytes.Buffer), new(bytes.Buffer)
	return &Console{Env: Env{
		Out: out, Err: errs, Now: time.Now, Getenv: func(string) string { return "" },
		Terminal: func() (int, bool) { return 0, false },
	}}, out, errs
}

// many is a daemon behind many addresses. It answers when enough are being asked.
type many struct {
	mu       sync.Mutex
	now, max int
	enough   chan struct{} // closed when atOnce are being asked
}

func (m *many) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/api/leases" {
		fmt.Fprint(w, `{"leases":[{"id":"a","processes":[{"gpu":"x","pid":1}]}],"waiting":[]}`)
		return
	}
	m.mu.Lock()
	m.now++
	if m.max = max(m.max, m.now); m.now == atOnce && m.max == atOnce {
		select {
		case <-m.enough:
		default:
			close(m.enough)
		}
	}
	m.mu.Unlock()
	<-m.enough
	m.mu.Lock()
	m.now--
	m.mu.Unlock()
	fmt.Fprint(w, `{"host":"h","gpus":[]}`)
}

// serve returns addresses of the machine at which a handler answers.
func serve(t *testing.T, h http.Handler, count int) (addresses []string) {
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}}
	server.Start()
	t.Cleanup(server.Close)
	for i := range count {
		addresses = append(addresses, fmt.Sprintf("127.0.0.%d:%d", i+1, listener.Addr().(*net.TCPAddr).Port))
	}
	return addresses
}

// Eight machines are asked at a time, and all are shown in the order of their names.
func TestAskManyAtOnce(t *testing.T) {
	daemon := &many{enough: make(chan struct{})}
	con, _, _ := world()
	nodes, err := con.Nodes(Across{URLs: serve(t, daemon, 30)})
	if err != nil {
		t.Fatal(err)
	}
	defer nodes.Close()
	all, err := nodes.Ask(t.Context())
	if err != nil || len(all.Nodes) != 30 {
		t.Fatalf("%d nodes, %v", len(all.Nodes), err)
	}
	if daemon.max != atOnce {
		t.Errorf("%d machines were asked at once, want %d", daemon.max, atOnce)
	}
	for i, n := range all.Nodes {
		if want := fmt.Sprintf("127.0.0.%d", i+1); n.Name != want || n.Down != "" || len(n.Leases) != 1 || n.Leases[0].Processes != nil {
			t.Errorf("node %d is %+v, want %s with a lease and no processes", i, n, want)
		}
	}
	if got := nodes.Doing(); got != "asking 30 nodes, 30 done" {
		t.Errorf("doing %q", got)
	}
}

// lines shows nodes by their names.
func lines(all api.Nodes) Shown {
	return Shown{all, func(term.Screen) (list []string) {
		for _, n := range all.Nodes {
			list = append(list, n.Name+" "+n.Down)
		}
		return list
	}}
}

// A machine that does not answer is shown, and is a failure that needs no more words.
func TestTellNodesOnce(t *testing.T) {
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"code":"bad_token","detail":"The token is not known."}`)
	})
	con, out, errs := world()
	nodes, err := con.Nodes(Across{URLs: append(serve(t, refuse, 1), "127.0.0.1:1")})
	if err != nil {
		t.Fatal(err)
	}
	defer nodes.Close()
	err = con.TellNodes(t.Context(), 0, nodes, lines)
	con.Report(err)
	said := slices.DeleteFunc(slices.Collect(strings.Lines(errs.String())), func(line string) bool {
		return strings.HasPrefix(line, "berth: asking ") || strings.HasPrefix(line, "berth: still asking ") // it took a while
	})
	if !errors.Is(err, ErrReported) || len(said) > 0 {
		t.Errorf("%v, and said %q", err, said)
	}
	if got := out.String(); !strings.Contains(got, "The token is not known.") || !strings.Contains(got, "127.0.0.1:1 No daemon answers (127.0.0.1:1: connection refused).") {
		t.Errorf("printed %q", got)
	}
}

// A question that is interrupted has no answer.
func TestAskInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	hang := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel(errors.New("enough"))
		<-r.Context().Done()
	})
	con, _, _ := world()
	nodes, err := con.Nodes(Across{URLs: serve(t, hang, 20)})
	if err != nil {
		t.Fatal(err)
	}
	defer nodes.Close()
	if all, err := nodes.Ask(ctx); err == nil || err.Error() != "enough" || len(all.Nodes) != 0 {
		t.Errorf("%d nodes, %v", len(all.Nodes), err)
	}
}

func TestDaemons(t *testing.T) {
	for _, c := range []struct{ urls, want string }{
		{"http://a:8000,https://b:8000,c,unix:///run/b.sock", "a b c /run/b.sock"},
		{"a:1,a:2,b:1", "a:1 a:2 b"},
		{"[::1]:8000,[fe80::1]:8000", "::1 fe80::1"},
		{"http://user:secret@a:8000", "a"},
		{"a:1,http://a:1", "--urls names a:1 twice"},
		{"unix:///a,unix:///a", "--urls names /a twice"},
		{"ftp://a", `"ftp://a" is not the address of a daemon: write it like http://host:8000`},
		{"unix://a", `"unix://a" is not the address of a socket: write it like unix:///run/berth/berth.sock`},
		{"a,", `"" is not the address of a daemon: write it like http://host:8000`},
	} {
		list, err := (&Across{URLs: strings.Split(c.urls, ",")}).daemons()
		var names []string
		for _, d := range list {
			names = append(names, d.name)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.urls, got, c.want)
		}
	}
}
