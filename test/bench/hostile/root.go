package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// root makes a call as root over the socket, within 10 seconds. An answer that
// is not 2xx is an error.
func (d *daemon) root(ctx context.Context, method, path, body string, into any) error {
	return d.rootWithin(ctx, 10*time.Second, method, path, body, into)
}

func (d *daemon) rootWithin(ctx context.Context, limit time.Duration, method, path, body string, into any) error {
	client := d.socket.client(limit)
	defer client.CloseIdleConnections()
	got, err := call{Method: method, Path: path, Body: body}.make(ctx, d.socket, client)
	switch {
	case err != nil:
		return fmt.Errorf("root's %s %s: %w", method, path, err)
	case got.Status/100 != 2:
		return fmt.Errorf("root's %s %s: the daemon answered %d %s", method, path, got.Status, got.Body)
	}
	switch into := into.(type) {
	case nil:
		return nil
	case *string:
		*into = got.Body
		return nil
	}
	return json.Unmarshal([]byte(got.Body), into)
}

// leases returns the leases by id, as root sees them.
func (d *daemon) leases(ctx context.Context) (map[string]api.Lease, error) {
	var all api.Leases
	err := d.root(ctx, "GET", "/api/leases", "", &all)
	byID := map[string]api.Lease{}
	for _, l := range all.Leases {
		byID[l.ID] = l
	}
	return byID, err
}

// events returns the events that root can read, and the length of the longest.
// It counts an event that is longer than a megabyte, and does not keep it.
func (d *daemon) events(ctx context.Context) (all []gpu.Event, longest int, err error) {
	client := d.socket.client(30 * time.Second)
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, "GET", "http://localhost/api/events?follow=false", nil)
	if err != nil {
		return nil, 0, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, 0, fmt.Errorf("read the events as root: %w", err)
	}
	defer answer.Body.Close()
	in := bufio.NewReaderSize(answer.Body, 1<<20)
	for {
		line, err := in.ReadSlice('\n')
		data, is := bytes.CutPrefix(line, []byte("data: "))
		if is {
			longest = max(longest, len(data))
		}
		switch {
		case errors.Is(err, io.EOF):
			return all, longest, nil
		case errors.Is(err, bufio.ErrBufferFull):
			if rest, err := in.ReadBytes('\n'); err == nil && is {
				longest = max(longest, len(data)+len(rest))
			}
		case err != nil:
			return all, longest, fmt.Errorf("read the events as root: %w", err)
		case is:
			var e gpu.Event
			if err := json.Unmarshal(data, &e); err != nil {
				return nil, 0, fmt.Errorf("read an event: %w", err)
			}
			all = append(all, e)
		}
	}
}

// expire acquires a lease as root and waits until it expires.
func (d *daemon) expire(ctx context.Context, id string) error {
	if err := d.root(ctx, "POST", "/api/leases", fmt.Sprintf(`{"id":%q,"memory_mb":10,"slots":0,"ttl_seconds":1}`, id), nil); err != nil {
		return err
	}
	failed := error(nil)
	if !eventually(6*time.Second, func() bool {
		warned, err := d.warned(ctx, id)
		failed = err
		return warned || err != nil
	}) {
		return fmt.Errorf("root's lease %s does not expire", id)
	}
	return failed
}
