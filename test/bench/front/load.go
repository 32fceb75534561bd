package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// kind is a kind of request.
type kind int

const (
	short  kind = iota // an answer of 300 bytes
	stream             // 1,000 small pieces
	held               // one piece, and then nothing
)

// request returns the bytes of a request.
func (k kind) request(c contender) []byte {
	if k == short {
		body := `{"messages":[{"role":"user","content":"` + strings.Repeat("How are you? ", 12) + `"}],"model":"chat"}`
		return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json\r\nUser-Agent: bench\r\nContent-Length: %d\r\n\r\n%s", c.address, len(body), body)
	}
	pieces := 1000
	if k == held {
		pieces = 0
	}
	return fmt.Appendf(nil, "GET %s/v1/stream?n=%d HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\n\r\n", c.prefix, pieces, c.address)
}

// caller is a client with one connection, which costs as little as possible.
type caller struct {
	net.Conn
	in *bufio.Reader
}

func dial(c contender) (*caller, error) {
	conn, err := net.Dial("tcp", c.address)
	if err != nil {
		return nil, err
	}
	return &caller{conn, bufio.NewReaderSize(conn, 64<<10)}, nil
}

// header reads the header of an answer, and returns its length, or -1 if it comes in
// chunks.
func (c *caller) header() (length int, err error) {
	length = -1
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if first && !bytes.Contains(line, []byte(" 200 ")) {
			return 0, fmt.Errorf("the answer is %q", line)
		}
		if len(line) <= 2 {
			return length, nil
		}
		if name, value, ok := bytes.Cut(line, []byte(": ")); ok && bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
}

// call makes a request and reads the whole answer.
func (c *caller) call(request []byte) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	length, err := c.header()
	if err != nil {
		return err
	}
	if length >= 0 {
		_, err = c.in.Discard(length)
		return err
	}
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 64)
		if err != nil {
			return err
		}
		if _, err := c.in.Discard(int(size) + 2); err != nil {
			return err
		}
		if size == 0 {
			return nil
		}
	}
}

// lean returns what makes one request after the other with little effort, so that nearly
// all of the time is the server's and the proxy's.
func lean(to contender, k kind) (call func() error, end func(), err error) {
	c, err := dial(to)
	if err != nil {
		return nil, nil, err
	}
	request := k.request(to)
	return func() error { return c.call(request) }, func() { _ = c.Close() }, nil
}

// usual returns what makes one short request after the other as programs do, with a
// library for HTTP.
func usual(to contender, k kind) (call func() error, end func(), err error) {
	_, body, _ := bytes.Cut(k.request(to), []byte("\r\n\r\n"))
	transport := &http.Transport{DisableCompression: true}
	client := &http.Client{Transport: transport}
	call = func() error {
		resp, err := client.Post("http://"+to.address+"/v1/chat/completions", "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("the answer is %s: %w", resp.Status, err)
		}
		return nil
	}
	return call, transport.CloseIdleConnections, nil
}

// client makes requests of a kind: lean or usual.
type client func(contender, kind) (call func() error, end func(), err error)

// load makes requests with some clients at a time, and returns how many a second there
// were and how long each took.
func load(to contender, by client, clients int, length time.Duration, k kind) (rate float64, times []float64, err error) {
	var mu sync.Mutex
	var failures []error
	var all sync.WaitGroup
	begun := time.Now()
	for range clients {
		all.Go(func() {
			var own []float64
			err := func() error {
				call, end, err := by(to, k)
				if err != nil {
					return err
				}
				defer end()
				for time.Since(begun) < length {
					at := time.Now()
					if err := call(); err != nil {
						return err
					}
					own = append(own, time.Since(at).Seconds())
				}
				return nil
			}()
			mu.Lock()
			defer mu.Unlock()
			times = append(times, own...)
			failures = append(failures, err)
		})
	}
	all.Wait()
	return float64(len(times)) / time.Since(begun).Seconds(), times, errors.Join(failures...)
}

// repeat makes a number of requests.
func repeat(to contender, clients, requests int) error {
	errs := make(chan error, clients)
	for range clients {
		go func() {
			c, err := dial(to)
			if err != nil {
				errs <- err
				return
			}
			defer c.Close()
			request := short.request(to)
			for range requests / clients {
				if err = c.call(request); err != nil {
					break
				}
			}
			errs <- err
		}()
	}
	var all []error
	for range clients {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// hold opens streams and leaves them open.
func hold(to contender, streams int) (closeAll func(), err error) {
	var open []net.Conn
	closeAll = func() {
		for _, c := range open {
			_ = c.Close()
		}
	}
	request := held.request(to)
	for range streams {
		c, err := dial(to)
		if err != nil {
			closeAll()
			return nil, err
		}
		open = append(open, c)
		if _, err := c.Write(request); err != nil {
			closeAll()
			return nil, err
		}
		if _, err = c.header(); err == nil {
			_, err = io.ReadFull(c.in, make([]byte, 4)) // the first piece
		}
		if err != nil {
			closeAll()
			return nil, err
		}
	}
	return closeAll, nil
}
