package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
)

// tokenTricks gives the attacker tokens of little worth, and lets them try with
// each what it does not give, over both doors. Then they guess, as fast as they
// can, while root works with a token of their own.
func tokenTricks(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{})
	if err != nil {
		return v, err
	}
	made := map[string]string{}
	for _, body := range []string{
		`{"name":"scraper","role":"scraper"}`, `{"name":"viewer","role":"viewer"}`, `{"name":"bound","role":"user","service":"theirs"}`,
		`{"name":"revoked","role":"admin"}`, `{"name":"expired","role":"admin","ttl_seconds":1}`, `{"name":"roots","role":"admin"}`,
	} {
		var token api.NewToken
		if err := d.root(ctx, "POST", "/api/tokens", body, &token); err != nil {
			return v, err
		}
		made[token.Name] = token.Secret
	}
	if err := d.root(ctx, "DELETE", "/api/tokens/revoked", "", nil); err != nil {
		return v, err
	}
	time.Sleep(2 * time.Second) // one of them expires
	if text, err := os.ReadFile(filepath.Join(d.dir, "state", "tokens.json")); err != nil {
		return v, err
	} else {
		for name, secret := range made {
			if strings.Contains(string(text), secret) {
				v.gain("the secret of %s, in the file of the tokens", name)
			}
		}
	}
	for _, door := range d.doors() {
		if err := escalate(ctx, a, d, &v, door, made); err != nil {
			return v, err
		}
		if err := guess(ctx, a, d, &v, door, made["roots"]); err != nil {
			return v, err
		}
	}
	return v, nil
}

// escalate tries with each token what it does not give.
func escalate(ctx context.Context, a *arena, d *daemon, v *verdict, door door, made map[string]string) error {
	var asked []call
	try := func(name, method, path, body string) {
		asked = append(asked, call{Method: method, Path: path, Body: body, Token: made[name]})
	}
	for _, name := range []string{"scraper", "viewer", "bound"} {
		try(name, "GET", "/api/tokens", "")
		try(name, "POST", "/api/tokens", `{"name":"mine-`+name+door.Network+`","role":"admin"}`)
		try(name, "DELETE", "/api/tokens/roots", "")
		try(name, "PUT", "/api/gpu/config", `{"temp_optimal": 61}`)
		try(name, "POST", "/api/gpu/config/reload", "")
		try(name, "POST", "/api/gpu/monitoring/stop", "")
	}
	for _, name := range []string{"scraper", "viewer"} {
		try(name, "POST", "/api/leases", `{"memory_mb":1,"slots":0,"timeout_seconds":0}`)
	}
	for _, path := range []string{"/api/leases", "/api/gpu/status/all", "/api/events?follow=false", "/api/whoami", "/openapi.json"} {
		try("scraper", "GET", path, "")
	}
	for _, name := range []string{"revoked", "expired"} {
		try(name, "GET", "/metrics", "")
		try(name, "POST", "/api/tokens", `{"name":"mine-`+name+door.Network+`","role":"admin"}`)
	}
	try("bound", "POST", "/api/leases", `{"memory_mb":1,"slots":0,"service":"others","timeout_seconds":0}`)
	try("bound", "POST", "/api/gpu/memory/allocate", `{"allocation_id":"x","memory_mb":1,"service":"others"}`)
	try("bound", "POST", "/api/services/others/operations", `{"count":1}`)
	got, err := a.calls(ctx, attacker, door, asked...)
	if err != nil {
		return err
	}
	for i, each := range got {
		if each.Status/100 == 2 || each.Status == 0 {
			name := "a token"
			for n, secret := range made {
				if secret == asked[i].Token {
					name = n
				}
			}
			v.gain("%s %s with the token %s over %s: %d", asked[i].Method, asked[i].Path, name, door, each.Status)
		}
	}
	var all api.Tokens
	if err := d.root(ctx, "GET", "/api/tokens", "", &all); err != nil {
		return err
	}
	if len(all.Tokens) != 5 {
		v.gain("there are %d tokens, not 5: %v", len(all.Tokens), all.Tokens)
	}
	return nil
}

// guess tries tokens as fast as the attacker can, and measures how long root waits
// meanwhile, with a token over the same door. Over TCP root is not the attacker:
// the daemon knows both by their users.
func guess(ctx context.Context, a *arena, d *daemon, v *verdict, door door, roots string) error {
	logged := d.logLength()
	done := make(chan error, 1)
	var got []reply
	go func() {
		done <- a.do(ctx, attacker, 0, "calls", askCalls{Door: door, Side: 32, Brief: true, Calls: []call{
			{Method: "GET", Path: "/api/leases", Token: "berth_$N0123456789012345678901234567890123456789", Times: a.size(400, 20000)},
		}}, &got)
	}()
	client := door.client(10 * time.Second)
	defer client.CloseIdleConnections()
	var slowest time.Duration
	for calls := 0; ; calls++ {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
			v.noting("a valid token waited %v at most while another user guessed", slowest.Round(time.Millisecond))
			if n := d.logLength() - logged; n > 64<<10 {
				v.gain("%d bytes in the log of the daemon, over %s", n, door)
			}
			return nil
		default:
		}
		begun := time.Now()
		reply, err := call{Method: "GET", Path: "/api/leases", Token: roots}.make(ctx, door, client)
		if err != nil || reply.Status != http.StatusOK {
			return fmt.Errorf("root's call over %s: %d %s %w", door, reply.Status, reply.Body, err)
		}
		if slowest = max(slowest, time.Since(begun)); slowest > 2*time.Second {
			v.gain("root waited %v with a valid token, over %s", slowest, door)
			<-done
			return nil
		}
	}
}
