package front

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/peercred"
	"github.com/berth-gpu/berth/internal/process"
)

// raw sends a text and returns the answers until the front closes the connection.
func (f *testFront) raw(t *testing.T, text string) (answers []string) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	_ = c.(*net.TCPConn).CloseWrite()
	in := bufio.NewReader(c)
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return answers
		}
		body, _ := io.ReadAll(resp.Body)
		answers = append(answers, fmt.Sprint(resp.StatusCode, " ", string(body)))
	}
}

// A request that two readers could take for different ones is refused, or reaches the
// server in one unmistakable form. The server must never see the path /smuggled.
func TestSmuggledRequests(t *testing.T) {
	f := startFront(t, newDaemon(t, ready("chat", startServer(t), 1)))
	const hidden = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
	begin := "POST /services/chat/x HTTP/1.1\r\nHost: localhost\r\n"
	for name, text := range map[string]string{
		"both lengths":            begin + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 5+len(hidden)) + hidden,
		"two lengths":             begin + "Content-Length: 0\r\nContent-Length: 44\r\n\r\n" + hidden,
		"length with a plus":      begin + "Content-Length: +0\r\n\r\n" + hidden,
		"encoding twice":          begin + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden,
		"encoding with a tab":     begin + "Transfer-Encoding:\tchunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + hidden,
		"space before the colon":  begin + "Transfer-Encoding : chunked\r\nContent-Length: 0\r\n\r\n" + hidden,
		"folded header":           begin + "X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + hidden,
		"bare line feed":          begin + "Content-Length: 0\r\nX: a\nY: b\r\n\r\n" + hidden,
		"size with a long chunk":  begin + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff0\r\n" + hidden,
		"body in a GET":           "GET /services/chat/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + fmt.Sprint(len(hidden)) + "\r\n\r\n" + hidden,
		"line end in the path":    "GET /services/chat/x%0d%0aHost:%20y%0d%0a%0d%0aGET%20/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"line end in the service": "GET /x HTTP/1.1\r\nHost: localhost\r\nX-Berth-Service: chat\r\n\r\n",
		"length dropped":          begin + "Connection: Content-Length, Transfer-Encoding\r\nContent-Length: " + fmt.Sprint(len(hidden)) + "\r\n\r\n" + hidden,
		"whole address":           "GET http://127.0.0.1:1/services/chat/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"tunnel":                  "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n",
		"protocol 2":              "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			answers := f.raw(t, text)
			for i, a := range answers {
				if strings.Contains(a, `"URI":"/smuggled"`) {
					t.Errorf("answer %d: the server saw the hidden request: %s", i, a)
				}
				if strings.HasPrefix(a, "200") && i > 0 {
					t.Errorf("answer %d: %s", i, a)
				}
			}
		})
	}
}

func TestSlowBodies(t *testing.T) {
	d := newDaemon(t, ready("chat", startServer(t), 1))
	f := startFront(t, d, func(f *Front) { f.patience = 50 * time.Millisecond })
	for name, text := range map[string]string{
		"to find the model": "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
		"short":             "POST /services/chat/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
		"long":              "POST /services/chat/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{",
		"form":              "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000\r\n\r\n--x",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, _ = io.WriteString(c, text)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err == nil && resp.StatusCode/100 != 4 {
				t.Error(resp.Status)
			}
		})
	}
	// Nobody is left, and a body in time is welcome.
	until(t, d, isOpen("chat", 0, 0))
	for f.room() != 0 {
		time.Sleep(time.Millisecond)
	}
	startFront(t, newDaemon(t, ready("chat", startServer(t), 1))).echoed(t, "POST", "/services/chat/x", strings.Repeat("x", 1<<20))
}

func TestTheDiskHasALimit(t *testing.T) {
	f := startFront(t, newDaemon(t, ready("chat", startServer(t), 1)), func(f *Front) { f.spool.one, f.spool.all = 800<<10, 1<<20 })
	form := func(size int) string {
		return "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n" + strings.Repeat("s", size) +
			"\r\n--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nchat\r\n--x--\r\n"
	}
	for _, c := range []struct {
		size, want int
		all        int64
	}{{400 << 10, 200, 1 << 20}, {700 << 10, 503, 1 << 20}, {700 << 10, 200, 2 << 20}, {900 << 10, 413, 4 << 20}} {
		f.spool.mu.Lock()
		f.spool.all = c.all
		f.spool.mu.Unlock()
		size, want := c.size, c.want
		resp, text, err := f.try("POST", "/v1/audio/transcriptions", strings.NewReader(form(size)), "Content-Type", "multipart/form-data; boundary=x")
		if err == nil && resp.StatusCode != want {
			t.Errorf("%d bytes: %s %s, want %d", size, resp.Status, text, want)
		}
	}
	if left, err := os.ReadDir(f.spool.folder); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	for f.room() != 0 { // the handler of a refused request ends a moment after its answer
		time.Sleep(time.Millisecond)
	}
}

// A disk without room is no mistake of the caller, who need not know where it is.
func TestTheDiskIsFull(t *testing.T) {
	f := startFront(t, newDaemon(t, ready("chat", startServer(t), 1)))
	f.spool.folder = "/proc/none"
	resp, text := f.do(t, "POST", "/v1/chat/completions", `{"a":"`+strings.Repeat("x", 100<<10)+`","model":"chat"}`)
	if resp.StatusCode != 503 || !strings.Contains(text, "no_room") || strings.Contains(text, "/proc") {
		t.Error(resp.Status, text)
	}
}

// room returns how much is on the disk.
func (f *Front) room() int64 {
	f.spool.mu.Lock()
	defer f.spool.mu.Unlock()
	return f.spool.used
}

// A web page of another site must not use the rights of the user whose browser shows it.
// Programs go on as before, and so does whoever has a token.
func TestPagesOfOtherSites(t *testing.T) {
	chat := ready("chat", startServer(t), 1)
	chat.Hosts = []string{"chat.example"}
	f := startFront(t, newDaemon(t, chat))
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(f.url, "http://")
	const fine, otherHost, otherSite = "", "foreign_host", "cross_origin"
	for _, c := range []struct {
		want   string
		header []string
	}{
		{fine, []string{"Host", "localhost:8080"}},
		{fine, []string{"Host", "LocalHost"}},
		{fine, []string{"Host", "chat.localhost:8080"}},
		{fine, []string{"Host", "127.0.0.1"}},
		{fine, []string{"Host", "[::1]:8080"}},
		{fine, []string{"Host", "[::1]"}},
		{fine, []string{"Host", "127.9.8.7"}},
		{otherHost, []string{"Host", "0.0.0.0:8080"}},
		{otherHost, []string{"Host", "[::]:8080"}},
		{otherHost, []string{"Host", "[::ffff:127.0.0.1]:8080"}},
		{otherHost, []string{"Host", "192.0.2.7:8080"}}, // of no machine
		{otherHost, []string{"Host", "build.c.project.internal"}},
		{fine, []string{"Host", "host.docker.internal:8080"}},
		{fine, []string{"Host", "chat.example:8080"}},
		{fine, []string{"Host", strings.ToUpper(own) + ":8080"}},
		{otherHost, []string{"Host", "evil.example"}},
		{otherHost, []string{"Host", "evil.example:8080"}},
		{otherHost, []string{"Host", "localhost.evil.example:8080"}},
		{otherHost, []string{"Host", "127.0.0.1.evil.example"}},
		{otherHost, []string{"Host", "evil.example", "Origin", "http://evil.example", "Sec-Fetch-Site", "same-origin"}},
		{fine, []string{"Host", "evil.example", "Authorization", "Bearer berth_bob"}},
		{otherHost, []string{"Host", "evil.example", "Authorization", "Bearer sk-other"}},
		{fine, []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://" + address}},
		{fine, []string{"Sec-Fetch-Site", "none"}},
		{fine, []string{"Origin", "http://" + address}},
		{otherSite, []string{"Sec-Fetch-Site", "cross-site"}},
		{otherSite, []string{"Sec-Fetch-Site", "same-site"}}, // another port
		{otherSite, []string{"Origin", "http://evil.example"}},
		{otherSite, []string{"Origin", "null"}},
		{otherSite, []string{"Origin", "http://evil.example", "Connection", "Upgrade", "Upgrade", "websocket"}},
		{fine, []string{"Sec-Fetch-Site", "cross-site", "Authorization", "Bearer berth_bob"}},
	} {
		for _, asked := range []string{"GET /services/chat/x", "POST /services/chat/x", "GET /v1/models"} {
			method, path, _ := strings.Cut(asked, " ")
			resp, text := f.do(t, method, path, "", c.header...)
			if c.want == fine && resp.StatusCode != 200 || c.want != fine && (resp.StatusCode != 403 || !strings.Contains(text, c.want)) {
				t.Errorf("%s %q: %s %s, want %q", asked, c.header, resp.Status, text, c.want)
			}
		}
	}
	if names := fmt.Sprint(hostsOf("GPU.example:80")); !strings.HasSuffix(names, " gpu.example]") {
		t.Error(names)
	}
}

// The page of one service may not use another with the rights of whoever looks at it.
func TestPagesOfOtherServices(t *testing.T) {
	s := startServer(t)
	named := ready("named", s, 3)
	named.Hosts = []string{"named.example"}
	f := startFront(t, newDaemon(t, ready("chat", s, 1), ready("evil", s, 2), named))
	address := strings.TrimPrefix(f.url, "http://")
	for _, c := range []struct {
		path, host, page string
		token            bool
		want             int
	}{
		{"/services/chat/x", address, "/services/evil/page.html", false, 403},
		{"/services/chat/x", address, "/services/e%76il/page.html", false, 403},
		{"/v1/x?model=chat", address, "/services/evil/", false, 403},
		{"/services/chat/x", address, "/services/evil/", true, 200},
		{"/services/chat/x", address, "/services/chat/page.html", false, 200},
		{"/services/chat/x", address, "/v1/page.html", false, 200},
		{"/services/chat/x", "named.example", "/services/evil/", false, 403},
		{"/services/chat/x", "named.example", "/page.html", false, 403},
		{"/x", "named.example", "/page.html", false, 200},
		{"/services/chat/x", address, "", false, 200},
	} {
		header := []string{"Host", c.host, "Sec-Fetch-Site", "same-origin"}
		if c.page != "" {
			header = append(header, "Referer", "http://"+c.host+c.page)
		}
		if c.token {
			header = append(header, "Authorization", "Bearer berth_bob")
		}
		resp, text := f.do(t, "GET", c.path, "", header...)
		if resp.StatusCode != c.want || c.want == 403 && !strings.Contains(text, "cross_service") {
			t.Errorf("%s from %s of %s: %s %s, want %d", c.path, c.page, c.host, resp.Status, text, c.want)
		}
	}
}

// A user who opens connections without end has so many and no more, and after that the
// door is open again.
func TestConnectionsWithoutEnd(t *testing.T) {
	f := startFront(t, newDaemon(t, ready("chat", startServer(t), 1)), func(f *Front) { f.limits = peercred.Limits{User: 20, Unknown: 20, All: 100} })
	var open []net.Conn
	for range 200 {
		c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	in := 0
	for _, c := range open {
		_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil && resp.StatusCode == 200 {
			in++
		}
	}
	if in != 20 {
		t.Errorf("%d connections were let in, want 20", in)
	}
	for _, c := range open {
		_ = c.Close()
	}
	for {
		if resp, _, err := f.try("GET", "/services/chat/x", nil); err == nil && resp.StatusCode == 200 {
			break
		}
	}
}

// arriving is a listener whose connections come from nobody knows where.
type arriving chan net.Conn

func (a arriving) Accept() (net.Conn, error) { return <-a, nil }
func (arriving) Addr() net.Addr              { return &net.TCPAddr{} }
func (arriving) Close() error                { return nil }

// Those who have shown a token do not give way to others who have not.
func TestCallersWithATokenKeepTheirConnections(t *testing.T) {
	f := startFront(t, newDaemon(t, ready("chat", startServer(t), 1)))
	from := make(arriving, 1)
	guests := peercred.NewGuests(peercred.Limits{User: 2, Unknown: 1, All: 9}, func() *access.Rules { return &access.Rules{} })
	door := &peercred.Listener{Listener: from, Kernel: peercred.New(process.Proc()), Guests: guests}
	isOpen := func(token string) func() bool {
		here, there := net.Pipe()
		t.Cleanup(func() { _ = there.Close() })
		from <- here
		c, err := door.Accept()
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(withConn(t.Context(), c), "GET", "/services/chat/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		f.ServeHTTP(newRecorder(), r)
		return func() bool { return c.SetReadDeadline(time.Time{}) == nil }
	}
	bob, wrong, last := isOpen("berth_bob"), isOpen("sk-other"), isOpen("sk-other")
	if !bob() || wrong() || !last() {
		t.Errorf("open are bob %v, who has no token %v, and the next of them %v", bob(), wrong(), last())
	}
}

// Another user's socket on the port of a service gets nothing.
func TestAStrangerOnThePort(t *testing.T) {
	s := startServer(t)
	stranger := ready("chat", s, 1)
	stranger.UID++
	f := startFront(t, newDaemon(t, stranger))
	if resp, text := f.do(t, "POST", "/v1/chat/completions", `{"model":"chat"}`); resp.StatusCode != 503 || !strings.Contains(text, "belongs to user") {
		t.Error(resp.Status, text)
	}
	if _, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port)); err != nil {
		t.Error(err) // it did listen
	}
}

// A server is a user's own program: it must not harm the front either.
func TestHostileServers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	answers := map[string]string{
		"/header":  "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 3000) + "\r\n",
		"/interim": strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 1000),
		"/nothing": "garbage\r\n\r\n",
		"/more":    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\npoison!",
		"/101":     "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
		"/lengths": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 7\r\n\r\nokpoison",
		"/usage":   "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{\"usage\":{\"prompt_tokens\":99999999999999999999}}",
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = io.WriteString(c, answers[r.URL.Path])
					if r.URL.Path == "/usage" {
						return
					}
				}
			}()
		}
	}()
	f := startFront(t, newDaemon(t, api.FrontService{Name: "evil", State: "ready", Epoch: 1, Port: l.Addr().(*net.TCPAddr).Port, UID: os.Getuid()}))
	for path, want := range map[string]int{"/header": 502, "/interim": 502, "/nothing": 502, "/more": 200, "/101": 502, "/lengths": 502, "/usage": 200} {
		for range 3 {
			resp, text := f.do(t, "GET", "/services/evil"+path, "")
			if resp.StatusCode != want || strings.Contains(text, "poison!") {
				t.Errorf("%s: %s %.200s, want %d", path, resp.Status, text, want)
			}
		}
	}
	s := f.table.current("evil").server
	for limit := time.Now().Add(time.Minute); ; runtime.Gosched() {
		s.mu.Lock()
		busy := len(s.busy)
		s.mu.Unlock()
		if busy == 0 {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("%d connections are kept after their requests", busy)
		}
	}
}
