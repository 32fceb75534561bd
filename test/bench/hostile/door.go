package main

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/berth-gpu/berth/client"
)

// door is an address of a daemon.
type door struct {
	Network, Address string
	From             string // for TCP: the address of the caller; empty: the kernel chooses
}

func (d door) String() string {
	if d.Network == "unix" {
		return "the socket"
	}
	if d.From != "" {
		return "TCP from " + d.From
	}
	return "TCP"
}

func (d door) dial(ctx context.Context) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	if d.From != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(d.From)}
	}
	return dialer.DialContext(ctx, d.Network, d.Address)
}

// client returns a client for a door with a time limit for each call.
func (d door) client(limit time.Duration) *http.Client {
	return &http.Client{Timeout: limit, Transport: &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return d.dial(ctx) },
		MaxIdleConnsPerHost: 16,
	}}
}

// berth returns a Go client for a door.
func (d door) berth() (*client.Client, error) {
	if d.Network == "unix" {
		return client.New(client.Options{Socket: d.Address})
	}
	return client.New(client.Options{URL: "http://" + d.Address})
}
