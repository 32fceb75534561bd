package client

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// Through returns a transport that hands every request to h in this process,
// without a network. It streams answers, so Events works through it. As in a
// server, a handler breaks an answer off with a panic of http.ErrAbortHandler.
func Through(h http.Handler) http.RoundTripper { return through{h} }

type through struct{ handler http.Handler }

func (t through) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	served := req.Clone(ctx)
	served.RequestURI = req.URL.RequestURI()
	if served.Body == nil {
		served.Body = http.NoBody
	}
	read, write := io.Pipe()
	w := &answer{header: http.Header{}, body: write, begun: make(chan struct{})}
	// The reader must not hang when the handler writes no more.
	stop := context.AfterFunc(ctx, func() { _ = write.CloseWithError(ctx.Err()) })
	go func() {
		defer stop()
		defer served.Body.Close()
		defer func() { // nobody else catches it here, as net/http does in a server
			if cause := recover(); cause == http.ErrAbortHandler {
				w.once.Do(func() { close(w.begun) })
				_ = write.CloseWithError(io.ErrUnexpectedEOF)
			} else if cause != nil {
				panic(cause)
			}
		}()
		t.handler.ServeHTTP(w, served)
		w.WriteHeader(http.StatusOK)
		_ = write.Close()
	}()
	select {
	case <-w.begun:
	case <-ctx.Done():
		cancel()
		return nil, ctx.Err()
	}
	if w.status == 0 { // broken off before it began
		cancel()
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: &answerBody{read, cancel}, ContentLength: -1, Request: req,
	}, nil
}

// answer is the writing end of a response.
type answer struct {
	header http.Header
	body   *io.PipeWriter
	once   sync.Once
	begun  chan struct{} // closed once status and sent are there
	status int
	sent   http.Header
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	a.once.Do(func() {
		a.status, a.sent = status, a.header.Clone()
		close(a.begun)
	})
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(b)
}

// Flush sends the header. Every write reaches the reader at once.
func (a *answer) Flush() { a.WriteHeader(http.StatusOK) }

// answerBody is the reading end; closing it tells the handler to stop.
type answerBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b *answerBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}
