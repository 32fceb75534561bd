package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// client is somebody who takes leases and gives them back.
type client struct {
	number int
	made   int // requests so far
	record *record
	random *rand.Rand
	http   *http.Client
	over   <-chan struct{} // closed when no daemon will come back
}

// newClient returns a client of the daemon behind a socket. Over is closed when no daemon will
// come back.
func newClient(number int, socket string, over <-chan struct{}, r *record, random *rand.Rand) *client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return &client{
		number: number, record: r, random: random, over: over,
		http: &http.Client{Transport: &http.Transport{DialContext: dial}},
	}
}

var (
	// errUnknown is a call that broke off: whether it was done is not known.
	errUnknown = errors.New("the connection broke")
	// errOver is a call that nobody will ever answer.
	errOver = errors.New("the daemon is gone")
)

// call asks the daemon. Where none is there to take the call, it waits for
// one; a call that was taken and not answered is errUnknown.
func (c *client) call(method, path string, in, out any) (status int, err error) {
	var body []byte
	if in != nil {
		if body, err = json.Marshal(in); err != nil {
			return 0, err
		}
	}
	for {
		r, err := http.NewRequest(method, "http://berth"+path, bytes.NewReader(body))
		if err != nil {
			return 0, err
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := c.http.Do(r)
		if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
			select {
			case <-c.over:
				return 0, errOver
			case <-time.After(2 * time.Millisecond):
				continue
			}
		}
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errUnknown, err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err == nil {
			err = json.Unmarshal(text, out)
		}
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errUnknown, err)
		}
		return answer.StatusCode, nil
	}
}

// reply is any answer of the lease paths: a lease, or a problem.
type reply struct {
	api.Lease
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// live takes leases and gives them back until ctx ends.
func (c *client) live(ctx context.Context) {
	defer c.http.CloseIdleConnections()
	for ctx.Err() == nil {
		c.made++
		c.once(ctx, fmt.Sprintf("client-%d-%d", c.number, c.made))
		c.pause(20 * time.Millisecond)
	}
}

func (c *client) pause(most time.Duration) { time.Sleep(time.Duration(c.random.Int64N(int64(most)))) }

// once is the life of one lease.
func (c *client) once(ctx context.Context, id string) {
	request := c.draw(id)
	var holder *holder
	if request.Binding == "process" {
		var err error
		if holder, err = startHolder(); err != nil {
			c.record.complain("start a holder: %v", err)
			return
		}
		defer holder.end()
		request.PID = holder.pid()
	}
	newest := c.record.asking()
	defer c.record.forget(id)
	if holder != nil && c.random.IntN(20) == 0 {
		dies := time.AfterFunc(time.Duration(c.random.Int64N(int64(5*time.Millisecond))), holder.kill)
		defer dies.Stop()
		c.askForTheDying(request, holder)
		return
	}
	l, granted := c.acquire(request)
	if !granted {
		return
	}
	c.record.acknowledge(l, newest)
	switch {
	case holder != nil && c.random.IntN(2) == 0:
		c.pause(60 * time.Millisecond)
		c.record.ending(id)
		holder.kill()
		c.record.count("holders killed")
		c.untilGone(l, holder.killed)
	case l.Expires != nil && c.random.IntN(3) == 0 && ctx.Err() == nil:
		time.Sleep(time.Until(*l.Expires))
		c.record.ending(id)
		c.record.count("left to expire")
		c.untilGone(l, *l.Expires)
	default:
		c.hold(l)
		c.record.ending(id)
		c.release(l)
	}
}

// draw makes up a request.
func (c *client) draw(id string) api.LeaseRequest {
	r := api.LeaseRequest{
		ID: id, GPUs: 1 + c.random.IntN(8)/7, Memory: gpu.MiB(100 + c.random.IntN(3000)), Slots: gpu.Some(c.random.IntN(2)),
		Timeout: gpu.Some([]float64{0, 0.05, 0.5}[c.random.IntN(3)]),
	}
	switch n := c.random.IntN(10); {
	case n < 5:
		r.Binding = "process"
	case n < 8:
		r.Binding, r.TTL = "ttl", gpu.Some(1+c.random.Float64())
	default:
		r.Binding = "named"
	}
	return r
}

// acquire asks for a lease, and finds out what became of it if the daemon dies.
func (c *client) acquire(r api.LeaseRequest) (api.Lease, bool) {
	var answer reply
	status, err := c.call("POST", "/api/leases", r, &answer)
	for errors.Is(err, errUnknown) || again(status) { // a daemon that stops says that one asks again
		c.record.count("outcome unknown")
		l, stands := c.find(r.ID)
		switch {
		case stands && l.Waiting != nil: // the daemon kept its place
			c.record.count("outcome unknown, and waits")
			answer = reply{}
			status, err = c.call("POST", "/api/leases?repeated=true", r, &answer)
		case stands:
			c.record.count("outcome unknown, and granted")
			return l, true
		default:
			return api.Lease{}, false
		}
	}
	switch {
	case err != nil:
		return api.Lease{}, false
	case status == http.StatusCreated:
		return answer.Lease, true
	case status != http.StatusConflict:
		c.record.complain("%s was answered with %d %s: %s", r.ID, status, answer.Code, answer.Detail)
	}
	c.record.count("refused: " + answer.Code)
	return api.Lease{}, false
}

// find asks until there is an answer.
func (c *client) find(id string) (api.Lease, bool) {
	for {
		var answer reply
		switch status, err := c.call("GET", "/api/leases/"+id, nil, &answer); {
		case errors.Is(err, errUnknown), again(status):
		case status == http.StatusOK:
			return answer.Lease, true
		case err != nil || status == http.StatusNotFound:
			return api.Lease{}, false
		default:
			c.record.complain("looking for %s was answered with %d %s", id, status, answer.Code)
			return api.Lease{}, false
		}
	}
}

// hold keeps a lease for a while, and renews it if it has to be.
func (c *client) hold(l api.Lease) {
	c.pause(60 * time.Millisecond)
	for l.Expires != nil && c.random.IntN(2) == 0 {
		var answer reply
		asked := time.Now()
		status, err := c.call("POST", "/api/leases/"+l.ID+"/renew", api.Renew{Fence: l.Fence}, &answer)
		switch {
		case err != nil || again(status):
			c.record.count("outcome unknown")
			return
		case status == http.StatusOK:
			c.record.count("renewed")
			l = answer.Lease
			c.record.renewed(l)
		case time.Now().Before(*l.Expires):
			c.record.complain("%s with fence %d, good until %s, could not be renewed at %s: %d %s", l.ID, l.Fence,
				l.Expires.Format("05.000"), asked.Format("05.000"), status, answer.Code)
			return
		default:
			return // too late, and told so
		}
		c.pause(60 * time.Millisecond)
	}
}

// release gives a lease back. The first who asks must find it there.
func (c *client) release(l api.Lease) {
	for first := true; ; first = false {
		var answer reply
		status, err := c.call("DELETE", fmt.Sprintf("/api/leases/%s?fence=%d", l.ID, l.Fence), nil, &answer)
		switch {
		case errors.Is(err, errUnknown), again(status):
			c.record.count("outcome unknown")
		case err != nil:
			return
		case status == http.StatusOK:
			c.record.count("released")
			return
		case first && !(l.Expires != nil && time.Now().After(*l.Expires)):
			c.record.complain("%s with fence %d was lost before its release: %d %s", l.ID, l.Fence, status, answer.Code)
			return
		default:
			return // an earlier try got through, or it expired
		}
	}
}

// Far more than it takes, on a machine that is busy and whose daemon dies.
const longest = 20 * time.Second

// untilGone waits for a lease to end by itself.
func (c *client) untilGone(l api.Lease, since time.Time) {
	for {
		found, stands := c.find(l.ID)
		if !stands || found.Fence != l.Fence {
			if l.Binding == "process" {
				c.record.ended(time.Since(since))
			}
			return
		}
		if time.Since(since) > longest {
			c.record.complain("%s with fence %d stands %v after its end", l.ID, l.Fence, time.Since(since).Round(time.Millisecond))
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// askForTheDying asks on behalf of a process that is killed meanwhile. Whatever
// the answer is, nothing must stay.
func (c *client) askForTheDying(r api.LeaseRequest, h *holder) {
	l, granted := c.acquire(r)
	h.kill()
	c.record.count("holders killed while they asked")
	if granted {
		c.untilGone(l, h.killed)
		return
	}
	if l, stands := c.find(r.ID); stands {
		c.untilGone(l, h.killed)
	}
}

// holder is a process that does nothing but hold a lease.
type holder struct {
	cmd    *exec.Cmd
	in     io.Closer
	once   sync.Once // guards killed
	killed time.Time
}

func startHolder() (*holder, error) {
	h := &holder{cmd: exec.Command("cat")} // ends with this program, whatever ends that
	in, err := h.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	h.in = in
	return h, h.cmd.Start()
}

func (h *holder) pid() int { return h.cmd.Process.Pid }

// kill ends the holder with -9, and returns when it is gone.
func (h *holder) kill() {
	h.once.Do(func() {
		h.killed = time.Now()
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
	})
}

func (h *holder) end() {
	h.kill()
	_ = h.in.Close()
}
