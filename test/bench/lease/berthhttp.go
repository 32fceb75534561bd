package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
)

// berthHTTP is the same daemon over its REST API, as any language can use it.
type berthHTTP struct{ *berth }

func (b *berthHTTP) stop() error { return nil } // startBerth's contender stops the daemon

// connect opens a new connection for each session.
func (b *berthHTTP) connect(context.Context) (session, error) {
	return &httpSession{http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", b.socket)
		},
		DisableCompression: true,
	}}}, nil
}

type httpSession struct{ http http.Client }

func (s *httpSession) close() error { s.http.CloseIdleConnections(); return nil }

func (s *httpSession) acquire(ctx context.Context, id string) error {
	return s.do(ctx, http.MethodPost, "", map[string]any{"id": id, "memory_mb": want, "ttl_seconds": lifetime, "timeout_seconds": 0})
}

func (s *httpSession) release(ctx context.Context, id string) error {
	return s.do(ctx, http.MethodDelete, "/"+id, nil)
}

func (s *httpSession) do(ctx context.Context, method, path string, body map[string]any) error {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://berth/api/leases"+path, sent)
	if err != nil {
		return err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := s.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return err
}
