package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
)

// The users of this attack. Services do not run as the attacker, nor the front as root.
const (
	serverUser = "bin"
	frontUser  = "daemon"
)

// frontMemoryMB is the most memory that the front may take.
const frontMemoryMB = 512

// throughTheFront attacks the front, and through it a service that the attacker may not
// use: by requests that two readers take for different ones, headers that name users,
// bodies that are expensive to read, slow bodies and many connections. Then it plays a
// front that somebody took over.
func throughTheFront(ctx context.Context, a *arena) (v verdict, err error) {
	for _, name := range []string{serverUser, frontUser} {
		if _, err := user.Lookup(name); err != nil {
			v.skipped = "there is no user " + name
			return v, nil
		}
	}
	const service = "  %s:\n    command: [%s, act, echo, '${PORT}']\n    user: %s\n    directory: /\n    memory: 1GiB\n    start: always\n    ready: {path: /ready}\n    %s\n"
	config := fmt.Sprintf("front: {listen: '127.0.0.1:0', user: %s}\nservices:\n", frontUser) +
		fmt.Sprintf(service, "open", a.self, serverUser, "") + fmt.Sprintf(service, "closed", a.self, serverUser, "users: [root]")
	d, err := a.serve(ctx, setup{config: config})
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, d.endServices(ctx)) }()
	address := ""
	ready := func() bool {
		var all api.Services
		if d.root(ctx, "GET", "/api/services", "", &all) != nil || len(all.Services) != 2 || all.Front == nil {
			return false
		}
		address = all.Front.Address
		return address != "" && all.Services[0].State == "ready" && all.Services[1].State == "ready"
	}
	if !eventually(time.Minute, ready) {
		return v, fmt.Errorf("the services do not get ready:\n%s", d.logText())
	}
	front, err := d.frontPID()
	if err != nil {
		return v, err
	}
	for _, part := range []func(context.Context, *arena, *daemon, string, *verdict) error{smuggle, nameUsers, bomb, crowd, playFront} {
		if err := part(ctx, a, d, address, &v); err != nil {
			return v, err
		}
	}
	if now, err := d.frontPID(); err != nil || now != front {
		v.gain("the front is another process now: %d instead of %d, %v", now, front, err)
	}
	peak, err := peakOf(front)
	if err != nil {
		return v, err
	}
	if peak > frontMemoryMB {
		v.gain("the front took %d MB (the most is %d)", peak, frontMemoryMB)
	}
	v.noting("%s; the front took %d MB", v.note, peak)
	return v, nil
}

// endServices ends the servers and the front, which outlive the daemon.
func (d *daemon) endServices(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(d.dir, "berth.yaml"), []byte("\n"), 0o600); err != nil {
		return err
	}
	if err := d.root(ctx, "POST", "/api/gpu/config/reload", "", nil); err != nil {
		return err
	}
	gone := func() bool {
		leases, err := d.leases(ctx)
		_, front := d.frontPID()
		return err == nil && len(leases) == 0 && front != nil
	}
	if !eventually(time.Minute, gone) {
		return errors.New("the servers and the front do not end")
	}
	return nil
}

// frontPID returns the process of the front of a daemon.
func (d *daemon) frontPID() (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if words := strings.Split(string(text), "\x00"); len(words) > 3 && words[1] == "front" && words[3] == d.socket.Address {
			return pid, nil
		}
	}
	return 0, errors.New("there is no front")
}

// peakOf returns the most memory that a process had.
func peakOf(pid int) (mb int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			_, err = fmt.Sscan(rest, &mb)
			mb /= 1024
		}
	}
	return mb, err
}

// beEcho is the server of a service: it answers each request with what it saw of it.
func beEcho(port string) error {
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		_ = json.NewEncoder(w).Encode(map[string]any{"lease": os.Getenv("BERTH_LEASE"), "uri": r.RequestURI, "header": r.Header, "bytes": n})
	}))
}

// askRaw asks an act to send texts to an address, each on a connection of its own.
type askRaw struct {
	Address string
	Texts   []string
	Pad     int // so many bytes [ take the place of @ in a text
}

// sendRaw sends texts, and says what was answered to each, until the connection is closed
// or nothing comes for a while.
func sendRaw(_ context.Context, in json.RawMessage, say func(any)) error {
	var asked askRaw
	if err := json.Unmarshal(in, &asked); err != nil {
		return err
	}
	answers := make([]string, len(asked.Texts))
	var all sync.WaitGroup
	for i, text := range asked.Texts {
		all.Go(func() {
			answers[i] = sendOne(asked.Address, strings.ReplaceAll(text, "@", strings.Repeat("[", asked.Pad)))
		})
	}
	all.Wait()
	say(answers)
	return nil
}

func sendOne(address, text string) string {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	go func() { _, _ = io.WriteString(c, text) }() // the front may refuse before it has read all
	wait := 30 * time.Second
	if !strings.Contains(text, "Connection: close") {
		wait = 4 * time.Second // then the front has answered, and waits for another request
	}
	_ = c.SetReadDeadline(time.Now().Add(wait))
	var all bytes.Buffer
	_, _ = io.Copy(&all, io.LimitReader(c, 1<<20))
	return all.String()
}

// raw lets a user send texts to the front.
func (a *arena) raw(ctx context.Context, uid int, asked askRaw) (answers []string, err error) {
	err = a.do(ctx, uid, 0, "raw", asked, &answers)
	return answers, err
}

// smuggle hides requests in others.
func smuggle(ctx context.Context, a *arena, _ *daemon, address string, v *verdict) error {
	const hidden = "GET /services/closed/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
	const begin = "POST /services/open/x HTTP/1.1\r\nHost: localhost\r\n"
	texts := []string{
		begin + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 5+len(hidden)) + hidden,
		begin + "Content-Length: 0\r\nContent-Length: 44\r\n\r\n" + hidden,
		begin + "Content-Length: +0\r\n\r\n" + hidden,
		begin + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden,
		begin + "Transfer-Encoding:\tchunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + hidden,
		begin + "Transfer-Encoding : chunked\r\nContent-Length: 0\r\n\r\n" + hidden,
		begin + "X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + hidden,
		begin + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff0\r\n" + hidden,
		begin + "Connection: Content-Length, Transfer-Encoding\r\nContent-Length: " + strconv.Itoa(len(hidden)) + "\r\n\r\n" + hidden,
		"GET /services/open/x%0d%0a%0d%0aGET%20/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /services/open/../closed/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /services/open/%2e%2e/closed/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET http://127.0.0.1:22/services/closed/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	}
	answers, err := a.raw(ctx, attacker, askRaw{Address: address, Texts: texts})
	if err != nil {
		return err
	}
	for i, answer := range answers {
		if strings.Contains(answer, `"lease":"closed-`) || strings.Contains(answer, `"uri":"/smuggled`) || strings.Contains(answer, "SSH-") {
			v.gain("a hidden request got through: %q was answered with %s", cut(texts[i], 120), cut(answer, 300))
		}
	}
	v.noting("%d hidden requests", len(texts))
	return nil
}

// nameUsers claims to be somebody else.
func nameUsers(ctx context.Context, a *arena, _ *daemon, address string, v *verdict) error {
	claims := []string{
		"X-Berth-User: root", "X-Forwarded-User: root", "X-Remote-User: root", "Remote-User: root", "X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1;by=root",
		"X-Real-IP: 127.0.0.1", "Authorization: Bearer root", "Authorization: Basic cm9vdDo=", "X-Api-Key: root", "X-Berth-Service: closed", "Host: closed", "Cookie: berth_session=root",
	}
	var texts []string
	for _, claim := range claims {
		texts = append(texts, "GET /services/closed/x HTTP/1.1\r\nHost: localhost\r\n"+claim+"\r\nConnection: close\r\n\r\n")
		body := `{"model":"closed"}`
		texts = append(texts, fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n%s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", claim, len(body), body))
	}
	texts = append(texts, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Berth-User: root\r\nConnection: close\r\n\r\n", "GET /services/open/x HTTP/1.1\r\nHost: localhost\r\nX-Berth-User: root\r\nX-Berth-Lease: root\r\nX-Forwarded-For: 10.0.0.1\r\nConnection: close\r\n\r\n")
	answers, err := a.raw(ctx, attacker, askRaw{Address: address, Texts: texts})
	if err != nil {
		return err
	}
	for i, answer := range answers {
		if strings.Contains(answer, `"lease":"closed-`) || strings.Contains(answer, `"id":"closed"`) {
			v.gain("a header made the attacker another user: %q was answered with %s", cut(texts[i], 200), cut(answer, 300))
		}
	}
	last := answers[len(answers)-1]
	if strings.Contains(last, "X-Berth-") || strings.Contains(last, "10.0.0.1") {
		v.gain("the server gets headers that only berth may set: %s", cut(last, 400))
	}
	got, err := a.raw(ctx, 0, askRaw{Address: address, Texts: texts[:1]})
	if err != nil {
		return err
	}
	if !strings.Contains(got[0], `"lease":"closed-`) {
		return fmt.Errorf("root may not use the closed service either, so this shows nothing: %s", got[0])
	}
	return nil
}

// bomb sends bodies that are expensive to read.
func bomb(ctx context.Context, a *arena, _ *daemon, address string, v *verdict) error {
	post := func(body, kind string) string {
		size := len(strings.ReplaceAll(body, "@", "")) + strings.Count(body, "@")*bombBytes
		return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", kind, size, body)
	}
	const form = "multipart/form-data; boundary=x"
	texts := []string{
		post(`{"messages":"@","model":"open"}`, "application/json"),
		post(`{"messages":@`, "application/json"),
		post(`{"model":"@"}`, "application/json"),
		post(`{"@":1,"model":"open"}`, "application/json"),
		post("--x\r\nContent-Disposition: form-data; name=\"@\"\r\n\r\n1\r\n", form),
		post(strings.Repeat("--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n", 20000), form),
		"GET /services/open/x HTTP/1.1\r\nHost: localhost\r\nX-Long: @\r\n\r\n",
		"GET /@ HTTP/1.1\r\nHost: localhost\r\n\r\n",
	}
	var all sync.WaitGroup
	failures := make(chan error, a.size(2, 8))
	for range cap(failures) {
		all.Go(func() {
			answers, err := a.raw(ctx, attacker, askRaw{Address: address, Texts: texts, Pad: bombBytes})
			for i, answer := range answers {
				if strings.HasPrefix(answer, "HTTP/1.1 200") && !strings.Contains(texts[i], "messages") {
					err = errors.Join(err, fmt.Errorf("bomb %d was answered with %s", i, cut(answer, 200)))
				}
			}
			failures <- err
		})
	}
	all.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	return stillServes(ctx, a, address, v, "after bombs")
}

// bombBytes is more than the front reads to find a model.
const bombBytes = 9 << 20

// stillServes checks that another user gets an answer.
func stillServes(ctx context.Context, a *arena, address string, v *verdict, when string) error {
	began := time.Now()
	answers, err := a.raw(ctx, victim, askRaw{Address: address, Texts: []string{"GET /services/open/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"}})
	if err != nil {
		return err
	}
	if took := time.Since(began); !strings.HasPrefix(answers[0], "HTTP/1.1 200") || took > 20*time.Second {
		v.gain("%s another user gets %s after %v", when, cut(answers[0], 200), took.Round(time.Millisecond))
	}
	return nil
}

// askCrowd asks an act to open connections and to leave them open, half of them with a
// request that does not end.
type askCrowd struct {
	Address string
	Count   int
	Most    int // that may stay open
}

func openCrowd(ctx context.Context, in json.RawMessage, say func(any)) error {
	var asked askCrowd
	if err := json.Unmarshal(in, &asked); err != nil {
		return err
	}
	var open []net.Conn
	for i := range asked.Count {
		c, err := net.DialTimeout("tcp", asked.Address, 5*time.Second)
		if err != nil {
			continue
		}
		if i%2 == 0 {
			_, _ = io.WriteString(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{\"messages\":\"")
		}
		open = append(open, c)
	}
	eventually(time.Minute, func() bool { // the front may not have seen all of them yet
		open = slices.DeleteFunc(open, isClosed)
		return len(open) <= asked.Most
	})
	say(len(open))
	<-ctx.Done()
	return nil
}

// isClosed reports whether the front has closed a connection, or said something there.
func isClosed(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	timeout := net.Error(nil)
	return !errors.As(err, &timeout) || !timeout.Timeout()
}

// crowd opens connections without end, and sends bodies that never come.
func crowd(ctx context.Context, a *arena, _ *daemon, address string, v *verdict) error {
	const mostOfAUser, closing = 2048, 64 // some may be about to be closed
	total, each := 0, a.size(1500, 5000)
	var actors []*actor
	for range 2 {
		alive := 0
		one, err := a.act(ctx, attacker, 0, "crowd", askCrowd{address, each, mostOfAUser + closing - total}, &alive)
		if err != nil {
			return err
		}
		actors = append(actors, one)
		total += alive
	}
	if total > mostOfAUser+closing {
		v.gain("one user has %d connections to the front (the most is %d)", total, mostOfAUser)
	}
	if err := stillServes(ctx, a, address, v, "beside a crowd"); err != nil {
		return err
	}
	v.noting("%s, %d of %d connections stayed open", v.note, total, 2*each)
	for _, one := range actors {
		_ = one.end()
	}
	return nil
}

// playFront does what somebody could who took the front over: with its user, on the
// socket.
func playFront(ctx context.Context, a *arena, d *daemon, address string, v *verdict) error {
	found, err := user.Lookup(frontUser)
	if err != nil {
		return err
	}
	uid, err := strconv.Atoi(found.Uid)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		uid   int
		calls []call
	}{
		{uid, []call{
			{Method: "POST", Path: "/api/services/closed/stop", Body: "{}"}, {Method: "POST", Path: "/api/services/open/restart", Body: "{}"}, {Method: "POST", Path: "/api/services/open/move", Body: `{"gpu":"1"}`},
			{Method: "GET", Path: "/api/services/open/log"}, {Method: "PUT", Path: "/api/gpu/config", Body: `{"services":{"open":{"command":["id"]}}}`},
			{Method: "PUT", Path: "/api/gpu/config", Body: `{"front":{"user":"root"}}`}, {Method: "POST", Path: "/api/tokens", Body: `{"name":"x","role":"admin"}`},
			{Method: "POST", Path: "/api/gpu/config/reload", Body: "{}"},
		}},
		{attacker, []call{ // only the front is the front
			{Method: "GET", Path: "/api/front/orders?front=evil"}, {Method: "POST", Path: "/api/front/reports", Body: `{"front":"evil","number":1,"reports":[]}`},
			{Method: "POST", Path: "/api/front/bring", Body: `{"front":"evil","service":"closed","user":"root"}`}, {Method: "POST", Path: "/api/front/caller", Body: `{"uid":0}`},
		}},
	} {
		for _, door := range d.doors() {
			got, err := a.calls(ctx, c.uid, door, c.calls...)
			if err != nil {
				return err
			}
			for i, r := range got {
				if r.Status < 400 {
					v.gain("uid %d over %s: %s %s was answered with %d %s", c.uid, door, c.calls[i].Method, c.calls[i].Path, r.Status, cut(r.Body, 200))
				}
			}
		}
	}
	got, err := a.calls(ctx, uid, d.socket, call{Method: "GET", Path: "/api/services/closed"}, call{Method: "GET", Path: "/api/gpu/config"})
	if err != nil {
		return err
	}
	for _, r := range got {
		if strings.Contains(r.Body, `"echo"`) || strings.Contains(r.Body, a.self) {
			v.gain("the front reads the command of a service: %s", cut(r.Body, 300))
		}
	}
	return nil
}
