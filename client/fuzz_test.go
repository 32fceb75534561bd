package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/api/wire"
	"github.com/berth-gpu/berth/gpu"
)

// Whatever comes over an event stream, in whatever pieces, the reader gives the
// same events, never an old one, and ends.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		": still here\n\nid: 7\nevent: critical\ndata: {\"id\":7,\"code\":\"critical\",\"severity\":\"critical\"}\n\nid: 9\n\ndata: {\"id\":3,\ndata: \"code\":\"gap\"}\n\n",
		"data: null\n\n", "data: []\n\n", "data:{\"id\":-1}\n\n", "id: 18446744073709551615\n\nid: 1\n\n", "\r\n\r\ndata: {}\r\n\r\n", "data: {\"id\":1}", ":\n", "data\n\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var given [2][]gpu.Event
		for i, body := range []io.Reader{bytes.NewReader(text), iotest.OneByteReader(bytes.NewReader(text))} {
			r := &reader{yield: func(e gpu.Event, _ error) bool {
				given[i] = append(given[i], e)
				return true
			}}
			err := r.give(body)
			if bad := (*badEventError)(nil); err != nil && !errors.As(err, &bad) {
				t.Fatalf("%q ends with %v", text, err)
			}
		}
		for i, e := range given[0] {
			if e.ID == 0 && e.Code != gpu.EventGap || i >= len(given[1]) || e.ID != given[1][i].ID {
				t.Fatalf("%q gives %+v and %+v", text, given[0], given[1])
			}
		}
	})
}

// Whatever a daemon answers, the client returns it or an error. A refusal has the
// status of the answer, whatever its body says.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 409 Conflict\r\nContent-Type: application/problem+json\r\n\r\n{\"status\":200,\"code\":\"no_fit\",\"fields\":[{\"field\":\"a\"}],\"extra\":{\"a\":[1]}}",
		"HTTP/1.1 500 x\r\n\r\nnull", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n{\"id\":\"a\",\"parts\":[{\"gpu\":\"x\"}]}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := New(Options{Transport: canned(text)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = call[api.Lease](t.Context(), c, http.MethodGet, "/api/leases/a", nil, nil)
		if problem := (*api.Problem)(nil); errors.As(err, &problem) && problem.Status < 300 {
			t.Errorf("%q is a refusal with the status %d", text, problem.Status)
		}
		if err != nil && strings.TrimSpace(err.Error()) == "" && !errors.As(err, new(*api.Problem)) {
			t.Errorf("%q is an error without a text", text)
		}
	})
}

// canned answers every request with the same bytes.
type canned []byte

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return http.ReadResponse(bufio.NewReader(bytes.NewReader(c)), r)
}

// Whatever comes over a lease stream is read as an answer, a refusal or an error,
// and what is read quickly is what encoding/json reads.
func FuzzFrames(f *testing.F) {
	frame := func(kind wire.Kind, body string) []byte { return wire.Append(nil, kind, 1, raw(body)) }
	f.Add(frame(wire.Done, `{"id":"a","fence":7,"state":"active","parts":[{"gpu":"GPU-a","memory_mb":1}],"holder":{"user":"u","uid":1}}`))
	f.Add(frame(wire.Refused, `{"status":409,"code":"no_fit","detail":"No."}`))
	f.Add(append(frame(wire.Refused, `null`), frame(wire.Done, `[]`)...))
	f.Fuzz(func(t *testing.T, text []byte) {
		in := wire.NewReader(bufio.NewReader(bytes.NewReader(text)), wire.MaxAnswer)
		for {
			fr, err := in.Next()
			if err != nil {
				return
			}
			var lease wire.LeaseBody
			if err := read(fr, &lease); err == nil && !json.Valid(fr.Body) {
				t.Errorf("%q is no JSON, and was read as %+v", fr.Body, lease)
			}
		}
	})
}

// raw is the body of a frame that is there as it is.
type raw string

func (r raw) Append(dst []byte) []byte { return append(dst, r...) }
