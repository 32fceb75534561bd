package front

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/door/peercred"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/process"
)

// serverVariable makes the test program a server, as a process of its own.
const serverVariable = "BERTH_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverVariable) != "" {
		beServer()
		return
	}
	os.Exit(m.Run())
}

// beServer answers requests in OpenAI's form on a port that it writes to its output.
func beServer() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(l, testServer(func(event string) { fmt.Println(event) })))
}

// testServer answers what tests ask. It tells what happens.
func testServer(tell func(event string)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	mux.HandleFunc("/sleep", func(http.ResponseWriter, *http.Request) { tell("sleep") })
	mux.HandleFunc("/powers", func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Set-Cookie"] = []string{"own=1; Path=/", "berth_session_23000=evil; Path=/", " =__Host-berth_session=evil"}
		w.Header().Set("Service-Worker-Allowed", "/")
		w.Header().Set("Clear-Site-Data", `"*"`)
	})
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "out of order", 500) })
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		c, _, _ := http.NewResponseController(w).Hijack()
		_ = c.Close()
	})
	// It echoes what it got, as JSON.
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		got := echo{Method: r.Method, URI: r.RequestURI, Host: r.Host, Header: r.Header, Body: string(body[:min(len(body), 1<<16)]), Size: len(body), Encoding: r.TransferEncoding}
		if err != nil {
			tell("body: " + err.Error())
		}
		got.Usage.Prompt, got.Usage.Completion = 7, 11
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(got)
	})
	// It streams a piece for each line that the caller sends, or a number of pieces.
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/hang/v1/messages", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"i\":0}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/v1/stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		for i := range n {
			fmt.Fprintf(w, "data: {\"i\":%d}\n\n", i)
			_ = http.NewResponseController(w).Flush()
		}
		tell("streaming")
		if n == 0 || r.URL.Query().Get("stay") != "" {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			tell("left")
			return
		}
		_, _ = io.WriteString(w, "data: {\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":5}}\n\ndata: [DONE]\n\n")
	})
	// It speaks another protocol: it sends every line back.
	mux.HandleFunc("/ws", func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		for {
			line, err := rw.ReadString('\n')
			if err != nil {
				tell("socket closed")
				return
			}
			_, _ = io.WriteString(c, line)
		}
	})
	return mux
}

// echo is what a server got.
type echo struct {
	Method, URI, Host, Body string
	Size                    int
	Header                  http.Header
	Encoding                []string
	Usage                   struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
}

// process is a server as a process of its own.
type serverProcess struct {
	port   int
	events *bufio.Scanner
	cmd    *exec.Cmd
}

func startServer(t testing.TB) *serverProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverVariable+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s := &serverProcess{events: bufio.NewScanner(out), cmd: cmd}
	s.port, err = strconv.Atoi(s.next(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// next returns the next thing that happened in the server.
func (s *serverProcess) next(t testing.TB) string {
	t.Helper()
	if !s.events.Scan() {
		t.Fatalf("the server ended: %v", s.events.Err())
	}
	return s.events.Text()
}

// testDaemon speaks the daemon's side of the protocol.
type testDaemon struct {
	t      testing.TB
	socket string

	mu      sync.Mutex
	table   []api.FrontService
	streams map[chan api.FrontOrder]bool
	seen    map[uint64]bool
	reports []api.FrontReport
	changed chan struct{} // closed and made anew when there are more reports
	bring   func(ctx context.Context, b api.FrontBring) (api.FrontBrought, *api.Problem)
	caller  func(api.FrontWho) (api.FrontCaller, *api.Problem)
	refuse  func() *api.Problem // a report; nil to take all
	asked   int                 // how often a caller was asked for
	server  *http.Server
}

func newDaemon(t testing.TB, services ...api.FrontService) *testDaemon {
	t.Helper()
	d := &testDaemon{t: t, socket: filepath.Join(t.TempDir(), "s"), table: services, streams: map[chan api.FrontOrder]bool{}, seen: map[uint64]bool{}, changed: make(chan struct{})}
	d.bring = func(context.Context, api.FrontBring) (api.FrontBrought, *api.Problem) {
		return api.FrontBrought{}, problems.New(503, "no_room", "It never fits.")
	}
	d.caller = func(w api.FrontWho) (api.FrontCaller, *api.Problem) {
		switch {
		case w.Token == "":
			return api.FrontCaller{User: "me", Role: "user"}, nil
		case strings.HasPrefix(w.Token, "berth_"):
			return api.FrontCaller{User: "token:" + strings.TrimPrefix(w.Token, "berth_"), Role: "user"}, nil
		}
		if len(w.Token) > 512 {
			return api.FrontCaller{}, problems.New(422, "invalid_request", "It is too long.")
		}
		return api.FrontCaller{}, problems.New(401, "unauthorized", "No.")
	}
	d.start()
	t.Cleanup(func() { d.stop() })
	return d
}

func (d *testDaemon) start() {
	l, err := net.Listen("unix", d.socket)
	if err != nil {
		d.t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/front/orders", d.orders)
	mux.HandleFunc("POST /api/front/reports", d.report)
	mux.HandleFunc("POST /api/front/bring", func(w http.ResponseWriter, r *http.Request) {
		asked := decoded[api.FrontBring](r)
		d.mu.Lock()
		bring := d.bring
		d.mu.Unlock()
		brought, problem := bring(r.Context(), asked)
		respond(w, brought, problem)
	})
	mux.HandleFunc("POST /api/front/caller", func(w http.ResponseWriter, r *http.Request) {
		who := decoded[api.FrontWho](r)
		d.mu.Lock()
		d.asked++
		caller, problem := d.caller(who)
		d.mu.Unlock()
		respond(w, caller, problem)
	})
	d.server = &http.Server{Handler: mux}
	go func() { _ = d.server.Serve(l) }()
}

// stop ends the daemon as kill -9 does.
func (d *testDaemon) stop() { _ = d.server.Close() }

func decoded[T any](r *http.Request) T {
	var v T
	_ = json.NewDecoder(r.Body).Decode(&v)
	return v
}

func (d *testDaemon) orders(w http.ResponseWriter, r *http.Request) {
	line := make(chan api.FrontOrder, 100)
	d.mu.Lock()
	line <- api.FrontOrder{Services: append([]api.FrontService{}, d.table...), Settings: &api.FrontSettings{Listen: "127.0.0.1:0"}}
	d.streams[line] = true
	d.mu.Unlock()
	for {
		select {
		case order := <-line:
			_ = json.NewEncoder(w).Encode(order)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			d.mu.Lock()
			delete(d.streams, line)
			d.mu.Unlock()
			return
		}
	}
}

func (d *testDaemon) report(w http.ResponseWriter, r *http.Request) {
	message := decoded[api.FrontReports](r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse != nil {
		if problem := d.refuse(); problem != nil {
			problems.Write(w, problem)
			return
		}
	}
	if !d.seen[message.Number] {
		d.seen[message.Number] = true
		d.reports = append(d.reports, message.Reports...)
		close(d.changed)
		d.changed = make(chan struct{})
	}
	w.WriteHeader(http.StatusNoContent)
}

// order gives an order, and keeps the table in step.
func (d *testDaemon) order(o api.FrontOrder) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o.Service != nil {
		for i := range d.table {
			if d.table[i].Name == o.Service.Name {
				d.table[i] = *o.Service
			}
		}
	}
	for line := range d.streams {
		line <- o
	}
}

// until waits for a report, and returns it. It looks at those that came before too.
func until[T any](t *testing.T, d *testDaemon, want func(api.FrontReport) (T, bool)) T {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		d.mu.Lock()
		changed := d.changed
		for _, r := range d.reports {
			if v, ok := want(r); ok {
				d.mu.Unlock()
				return v
			}
		}
		seen := fmt.Sprint(len(d.reports))
		d.mu.Unlock()
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("the report did not come; %s others did", seen)
		}
	}
}

// forget forgets all reports.
func (d *testDaemon) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reports = nil
}

func isClosed(service string, epoch uint64) func(api.FrontReport) (bool, bool) {
	return func(r api.FrontReport) (bool, bool) {
		return true, r.Closed != nil && *r.Closed == (api.FrontEpoch{Service: service, Epoch: epoch})
	}
}

func isOpen(service string, open, waiting int) func(api.FrontReport) (api.FrontOpen, bool) {
	return func(r api.FrontReport) (api.FrontOpen, bool) {
		if r.Open == nil {
			return api.FrontOpen{}, false
		}
		return *r.Open, r.Open.Service == service && r.Open.Open == open && r.Open.Waiting == waiting
	}
}

// testFront is a front that runs.
type testFront struct {
	*Front
	url  string
	stop context.CancelFunc
	done chan error
}

func startFront(t testing.TB, d *testDaemon, change ...func(*Front)) *testFront {
	t.Helper()
	c, err := client.New(client.Options{Socket: d.socket})
	if err != nil {
		t.Fatal(err)
	}
	level := slog.LevelError
	if testing.Verbose() {
		level = slog.LevelDebug
	}
	address := make(chan net.Addr, 1)
	o := Options{Daemon: c, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})), Spool: t.TempDir(), Listening: func(a net.Addr) { address <- a }}
	ctx, stop := context.WithCancel(context.Background())
	hurry, kill := context.WithCancel(context.Background())
	f := &testFront{Front: newFront(o, peercred.New(process.Proc())), stop: stop, done: make(chan error, 1)}
	for _, c := range change {
		c(f.Front)
	}
	go func() { f.done <- f.run(ctx, hurry, o) }()
	t.Cleanup(func() {
		stop()
		kill()
		<-f.done
		c.Close()
	})
	select {
	case a := <-address:
		f.url = "http://" + a.String()
	case err := <-f.done:
		f.done <- nil
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("the front does not listen")
	}
	return f
}

// do makes a request and returns the answer with its body.
func (f *testFront) do(t *testing.T, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	resp, text, err := f.try(method, path, strings.NewReader(body), header...)
	if err != nil {
		t.Fatal(err)
	}
	return resp, text
}

func (f *testFront) try(method, path string, body io.Reader, header ...string) (*http.Response, string, error) {
	r, err := http.NewRequest(method, f.url+path, body)
	if err != nil {
		return nil, "", err
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := (&http.Client{Timeout: time.Minute}).Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

// echoed makes a request that a server echoes.
func (f *testFront) echoed(t *testing.T, method, path, body string, header ...string) echo {
	t.Helper()
	resp, text := f.do(t, method, path, body, header...)
	var got echo
	if err := json.Unmarshal([]byte(text), &got); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s %s: %s %s", method, path, resp.Status, text)
	}
	return got
}

// ready describes a service that is open.
func ready(name string, s *serverProcess, epoch uint64) api.FrontService {
	return api.FrontService{Name: name, State: "ready", Epoch: epoch, Port: s.port, UID: os.Getuid()}
}

func TestRequestsReachTheirServices(t *testing.T) {
	a, b := startServer(t), startServer(t)
	chat, whisper := ready("chat", a, 1), ready("whisper", b, 2)
	chat.Models, whisper.Hosts = []string{"llama-*"}, []string{"speech.example"}
	f := startFront(t, newDaemon(t, chat, whisper))
	form := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n" + strings.Repeat("sound", 100000) +
		"\r\n--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper\r\n--x--\r\n"
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		server                   *serverProcess
		uri                      string
	}{
		{"model in JSON", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"model":"llama-3"}`, nil, a, "/v1/chat/completions"},
		{"name of the service as model", "POST", "/v1/completions", `{"model":"whisper"}`, nil, b, "/v1/completions"},
		{"large JSON", "POST", "/v1/chat/completions", `{"messages":"` + strings.Repeat("x", 3<<20) + `","model":"llama-3"}`, nil, a, "/v1/chat/completions"},
		{"large JSON, model first", "POST", "/v1/chat/completions", `{"model":"llama-3","messages":"` + strings.Repeat("x", 20<<20) + `"}`, nil, a, "/v1/chat/completions"},
		{"form with the model after the file", "POST", "/v1/audio/transcriptions", form, []string{"Content-Type", "multipart/form-data; boundary=x"}, b, "/v1/audio/transcriptions"},
		{"query", "GET", "/props?model=llama-1&a=%2F", "", nil, a, "/props?model=llama-1&a=%2F"},
		{"path", "GET", "/services/whisper/a%2Fb?c=d;e", "", nil, b, "/a%2Fb?c=d;e"},
		{"path with a large body", "PUT", "/services/whisper/", strings.Repeat("y", 12<<20), nil, b, "/"},
		{"path without a rest", "GET", "/services/chat", "", nil, a, "/"},
		{"host", "GET", "/any", "", []string{"Host", "Speech.example:80"}, b, "/any"},
		{"header", "DELETE", "/any", "", []string{"X-Berth-Service", "chat"}, a, "/any"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := f.echoed(t, c.method, c.path, c.body, c.header...)
			if got.URI != c.uri || got.Method != c.method || got.Size != len(c.body) || got.Body != c.body[:min(len(c.body), 1<<16)] {
				t.Errorf("got %s %s with %d bytes, want %s %s with %d", got.Method, got.URI, got.Size, c.method, c.uri, len(c.body))
			}
			if port := strconv.Itoa(c.server.port); !strings.HasSuffix(got.Host, ":"+port) {
				t.Errorf("host %s, want port %s", got.Host, port)
			}
		})
	}
}

func TestRefusalsAreInTheCallersForm(t *testing.T) {
	a := startServer(t)
	chat, private, stopped := ready("chat", a, 1), ready("private", a, 2), ready("stopped", a, 3)
	private.Users, private.Refuse = []string{"somebody"}, []string{"/own/sleep"}
	chat.Refuse = []string{"/own/nap?level=1"}
	stopped.State, stopped.Stopped = "away", &api.FrontStopped{By: "alice", Why: "the roof leaks", At: time.Now()}
	f := startFront(t, newDaemon(t, chat, private, stopped, api.FrontService{Name: "away", State: "away"}))
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		want                     string
	}{
		{"unknown model", "POST", "/v1/chat/completions", `{"model":"x"}`, nil, 404, `"code":"model_not_found"`},
		{"mistyped model", "POST", "/v1/chat/completions", `{"model":"chatt"}`, nil, 404, `Did you mean \"chat\"?`},
		{"mistyped model that is not mine", "GET", "/v1/models/privat", "", nil, 404, `There is no model \"privat\" here. /v1/models lists them.`},
		{"mistyped service", "GET", "/services/chatt/health", "", nil, 404, `There is no service \"chatt\" here. Did you mean \"chat\"?`},
		{"mistyped service that is not mine", "GET", "/services/privat/health", "", nil, 404, `There is no service \"privat\" here. /v1/models lists the models.`},
		{"unknown model, Anthropic", "POST", "/v1/messages", `{"model":"x"}`, nil, 404, `{"type":"error","error":{"type":"not_found_error"`},
		{"no model", "POST", "/v1/chat/completions", `{"messages":[]}`, nil, 400, `"code":"no_model"`},
		{"model no string", "POST", "/v1/chat/completions", `{"model":{"model":"chat"}}`, nil, 400, `"code":"no_model"`},
		{"no JSON", "POST", "/v1/chat/completions", `model=chat`, nil, 400, `"code":"no_model"`},
		{"model deep down", "POST", "/v1/chat/completions", `{"a":{"model":"chat"}}`, nil, 400, `"code":"no_model"`},
		{"name of a model too long", "POST", "/v1/chat/completions", `{"model":"` + strings.Repeat("m", 1<<20) + `"}`, nil, 400, `"code":"no_model"`},
		{"bomb of brackets", "POST", "/v1/chat/completions", `{"a":` + strings.Repeat("[", 1<<20), nil, 400, `"code":"no_model"`},
		{"model too late", "POST", "/v1/chat/completions", `{"a":"` + strings.Repeat("a", 9<<20) + `","model":"chat"}`, nil, 413, `X-Berth-Service`},
		{"compressed", "POST", "/v1/chat/completions", "\x1f\x8b", []string{"Content-Encoding", "gzip"}, 415, `"code":"compressed"`},
		{"form without model", "POST", "/v1/audio/transcriptions", "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--x--\r\n", []string{"Content-Type", "multipart/form-data; boundary=x"}, 400, `"code":"no_model"`},
		{"form cut off", "POST", "/v1/audio/transcriptions", "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb", []string{"Content-Type", "multipart/form-data; boundary=x"}, 400, `"code":"bad_body"`},
		{"nothing", "GET", "/v1/nothing", "", nil, 404, `"code":"no_service"`},
		{"unknown service", "GET", "/services/x/", "", nil, 404, `/v1/models`},
		{"not mine", "GET", "/services/private/", "", nil, 403, `"code":"forbidden"`},
		{"stopped", "GET", "/services/stopped/", "", nil, 503, `alice stopped the service stopped on `},
		{"stopped, why", "GET", "/services/stopped/", "", nil, 503, `the roof leaks`},
		{"will not come", "POST", "/v1/messages", `{"model":"away"}`, nil, 503, `{"type":"error","error":{"type":"overloaded_error","message":"It never fits."}}`},
		{"sleep", "POST", "/services/chat/sleep?level=1", "", nil, 403, `"code":"private_path"`},
		{"sleep, escaped", "POST", "/services/chat/%73leep", "", nil, 403, `"code":"private_path"`},
		{"sleep, in capitals and slashes", "POST", "/services/chat//SLEEP/", "", nil, 403, `"code":"private_path"`},
		{"sleep, by dots", "POST", "/services/chat/v1/%2e%2e/sleep", "", nil, 400, `"code":"bad_path"`},
		{"own sleep", "POST", "/services/chat/own/nap", "", nil, 403, `"code":"private_path"`},
		{"load", "POST", "/services/chat/models/load", "{}", nil, 403, `"code":"private_path"`},
		{"server broken", "GET", "/services/chat/broken", "", nil, 500, "out of order"},
		{"server breaks off", "GET", "/services/chat/cut", "", nil, 502, `"code":"server_broke_off"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, text := f.do(t, c.method, c.path, c.body, c.header...)
			if resp.StatusCode != c.status || !strings.Contains(text, c.want) {
				t.Errorf("%d %s, want %d with %s", resp.StatusCode, text, c.status, c.want)
			}
		})
	}
	if got := f.echoed(t, "GET", "/services/chat/is_sleeping", ""); got.URI != "/is_sleeping" {
		t.Error("a question is refused:", got)
	}
}

func TestModelsOfTheCaller(t *testing.T) {
	chat, private := api.FrontService{Name: "chat", Models: []string{"llama", "llama-*"}, State: "away"}, api.FrontService{Name: "private", State: "away", Users: []string{"token:bob"}}
	f := startFront(t, newDaemon(t, chat, private))
	list := func(path string, header ...string) (ids []string) {
		_, text := f.do(t, "GET", path, "", header...)
		var got struct{ Data []struct{ ID string } }
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(text, err)
		}
		for _, m := range got.Data {
			ids = append(ids, m.ID)
		}
		return ids
	}
	if got := fmt.Sprint(list("/v1/models"), list("/v1/models", "Authorization", "Bearer berth_bob"), list("/v1/models", "X-Api-Key", "berth_bob", "Anthropic-Version", "1")); got != "[llama] [llama private] [llama private]" {
		t.Error(got)
	}
	for path, want := range map[string]int{"/v1/models/llama": 200, "/v1/models/llama-7": 200, "/v1/models/private": 404} {
		if resp, text := f.do(t, "GET", path, ""); resp.StatusCode != want {
			t.Error(path, resp.Status, text)
		}
	}
}

func TestCallers(t *testing.T) {
	d := newDaemon(t, ready("chat", startServer(t), 1))
	f := startFront(t, d)
	get := func(header ...string) echo { return f.echoed(t, "GET", "/services/chat/x", "", header...) }
	if got := get("Authorization", "Bearer berth_bob").Header; got.Get("Authorization") != "" {
		t.Error("the server got berth's token")
	}
	if got := get("X-Api-Key", "berth_bob").Header; got.Get("X-Api-Key") != "" {
		t.Error("the server got berth's token")
	}
	for _, own := range []string{"Bearer sk-other", "Bearer " + strings.Repeat("j", 2000), "Basic " + base64.StdEncoding.EncodeToString([]byte("a:b"))} {
		if got := get("Authorization", own).Header.Get("Authorization"); got != own {
			t.Errorf("the server did not get its own key: %q", got)
		}
	}
	d.mu.Lock()
	d.caller = func(api.FrontWho) (api.FrontCaller, *api.Problem) {
		return api.FrontCaller{User: "me", Role: "viewer"}, nil
	}
	asked := d.asked
	d.mu.Unlock()
	get() // the answer is remembered
	get("Authorization", "Bearer berth_bob")
	d.mu.Lock()
	if d.asked != asked {
		t.Error("the daemon was asked again at once")
	}
	d.mu.Unlock()
	if resp, text := f.do(t, "GET", "/services/chat/x", "", "Authorization", "Bearer berth_new"); resp.StatusCode != 403 || !strings.Contains(text, "role viewer") {
		t.Error(resp.Status, text)
	}
}

// A server is a program of some user. It gets no token of berth, also if the token counts
// for nothing at that moment.
func TestServersGetNoTokens(t *testing.T) {
	d := newDaemon(t, ready("chat", startServer(t), 1))
	who := d.caller
	d.caller = func(w api.FrontWho) (api.FrontCaller, *api.Problem) {
		switch w.Token {
		case "berth_old":
			return api.FrontCaller{}, problems.New(401, "unauthorized", "No.")
		case "berth_gone", "brought":
			return api.FrontCaller{}, problems.New(403, "token_user_gone", "No.")
		case "revoked-and-brought":
			return api.FrontCaller{}, problems.New(401, "token_revoked", "No.")
		case "adminpw12345", "EMPTY":
			return api.FrontCaller{}, problems.New(401, "weak_token", "No.")
		}
		return who(w)
	}
	f := startFront(t, d)
	made := "berth_" + strings.Repeat("Aa0-_", 9)[:43]
	for _, header := range [][]string{
		{"Authorization", "Bearer berth_old"},
		{"Authorization", "bearer  berth_old"},
		{"Authorization", "Bearer sk-other", "Authorization", "Bearer berth_old"},
		{"X-Api-Key", "berth_old"},
		{"Authorization", "Bearer sk-other", "X-Api-Key", "berth_bob"},
		{"Api-Key", "berth_bob"},
		{"X-Foo", "token=" + made},
		{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+made))},
		{"Referer", "http://localhost/?key=" + made + "&b"},
		{"Authorization", "Bearer adminpw12345"},
		{"X-Api-Key", "EMPTY"},
	} {
		got := f.echoed(t, "GET", "/services/chat/x", "", append(header, "Cookie", "a=b; berth_theme=dark")...)
		for name, values := range got.Header {
			if text := fmt.Sprint(values); strings.Contains(text, "adminpw") || strings.Contains(text, "EMPTY") || name != "Cookie" && strings.Contains(text, "berth_") || strings.HasPrefix(text, "[Basic") {
				t.Errorf("%q: the server got %s: %s", header, name, text)
			}
		}
		if got.Header.Get("Cookie") != "a=b; berth_theme=dark" {
			t.Errorf("%q: the cookies are %q", header, got.Header.Get("Cookie"))
		}
	}
	for token, want := range map[string]int{"berth_gone": 403, "brought": 403, "revoked-and-brought": 401} {
		if resp, text := f.do(t, "GET", "/services/chat/x", "", "Authorization", "Bearer "+token); resp.StatusCode != want {
			t.Errorf("%s: %s %s", token, resp.Status, text)
		}
	}
	for _, path := range []string{"?key=" + made, "?key=%62erth_" + made[6:], "/" + made + "/"} {
		if resp, text := f.do(t, "GET", "/services/chat/x"+path, "", "Authorization", "Bearer "+made); resp.StatusCode != 400 || !strings.Contains(text, "token_in_address") || strings.Contains(text, made) {
			t.Errorf("%s: %s %s", path, resp.Status, text)
		}
	}
}

// Cookies of the daemon's page do not reach the servers, and servers cannot set them. What
// a server says about the whole host does not reach browsers: other services are on it.
func TestServersHaveNoPowerOverTheHost(t *testing.T) {
	f := startFront(t, newDaemon(t, ready("chat", startServer(t), 1)))
	got := f.echoed(t, "GET", "/services/chat/x", "", "Cookie", "a=b; berth_session_23000=s1; c=d;__Host-berth_session_23000=s2", "Cookie", "berth_session=s3")
	if cookies := fmt.Sprint(got.Header["Cookie"]); cookies != "[a=b; c=d]" {
		t.Error(cookies)
	}
	resp, _ := f.do(t, "GET", "/services/chat/powers", "")
	if set := fmt.Sprint(resp.Header["Set-Cookie"]); set != "[own=1; Path=/]" {
		t.Error(set)
	}
	for _, name := range []string{"Service-Worker-Allowed", "Clear-Site-Data"} {
		if resp.Header.Get(name) != "" {
			t.Error(name)
		}
	}
}

// While the user database does not say how a user is called, nobody knows whether they may
// use what is for some; what is for everybody they may.
func TestAUserWithoutAName(t *testing.T) {
	s := startServer(t)
	mine := ready("mine", s, 2)
	mine.Users = []string{"ada"}
	d := newDaemon(t, ready("chat", s, 1), mine)
	d.caller = func(api.FrontWho) (api.FrontCaller, *api.Problem) {
		return api.FrontCaller{User: "1001", Role: "user", Unnamed: true}, nil
	}
	f := startFront(t, d)
	f.echoed(t, "GET", "/services/chat/x", "")
	if resp, text := f.do(t, "GET", "/services/mine/x", ""); resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" {
		t.Error(resp.Status, text)
	}
	d.mu.Lock()
	d.caller = func(api.FrontWho) (api.FrontCaller, *api.Problem) {
		return api.FrontCaller{User: "ada", Role: "user"}, nil
	}
	d.mu.Unlock()
	f.callers.mu.Lock()
	for key, k := range f.callers.known {
		k.at = k.at.Add(-unnamedAge)
		f.callers.known[key] = k
	}
	f.callers.mu.Unlock()
	f.echoed(t, "GET", "/services/mine/x", "")
}

// A caller from another machine has no user.
func TestStrangersNeedAToken(t *testing.T) {
	d := newDaemon(t, ready("chat", startServer(t), 1))
	f := startFront(t, d)
	for token, want := range map[string]int{"": 401, "sk-other": 401, "berth_bob": 200} {
		r, err := http.NewRequest("GET", "/services/chat/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		w := newRecorder()
		f.ServeHTTP(w, r)
		if w.status != want {
			t.Errorf("%q: %d, want %d", token, w.status, want)
		}
	}
}

// recorder is a response that is not a connection.
type recorder struct {
	header http.Header
	status int
}

func newRecorder() *recorder                         { return &recorder{header: http.Header{}} }
func (r *recorder) Header() http.Header              { return r.header }
func (r *recorder) WriteHeader(status int)           { r.status = status }
func (r *recorder) Write(b []byte) (int, error)      { return len(b), nil }
func (r *recorder) FlushError() error                { return nil }
func (r *recorder) SetReadDeadline(time.Time) error  { return nil }
func (r *recorder) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }

func TestHeadersThatNameUsersAreDropped(t *testing.T) {
	f := startFront(t, newDaemon(t, ready("chat", startServer(t), 1)))
	got := f.echoed(t, "GET", "/services/chat/x", "",
		"X-Forwarded-For", "10.0.0.1", "X-Forwarded-User", "root", "X-Remote-User", "root", "X_Remote_User", "root", "Remote-User", "root", "X-Userid", "root", "X-Groups", "wheel", "X-Email", "root", "X-Consumer-Username", "root", "X-Berth-User", "root",
		"X-Auth-Request-Email", "root", "X-WebAuth-User", "root", "Tailscale-User-Login", "root", "Forwarded", "for=1", "X-Real-IP", "10.0.0.1",
		"Connection", "X-Forwarded-For, X-Kept", "User-Agent", "test", "X-Kept", "no", "X-Stainless-Lang", "python", "Cookie", "a=b")
	for name := range got.Header {
		switch name {
		case "User-Agent", "X-Stainless-Lang", "Cookie", "Accept-Encoding", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto":
		default:
			t.Errorf("the server got %s: %s", name, got.Header.Get(name))
		}
	}
	if got.Header.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Error("X-Forwarded-For is", got.Header.Get("X-Forwarded-For"))
	}
}

// respond writes the daemon's answer.
func respond(w http.ResponseWriter, v any, problem *api.Problem) {
	if problem != nil {
		problems.Write(w, problem)
		return
	}
	_ = json.NewEncoder(w).Encode(v)
}
