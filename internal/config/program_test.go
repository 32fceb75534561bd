package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/internal/config"
)

func TestRefusedPrograms(t *testing.T) {
	for _, c := range []struct{ name, yaml, want string }{
		{"a command for a shell", "services: {a: {command: a | b}}", `berth.yaml:1: services.a.command: has |, which only a shell understands: quote it, or write [sh, -c, "…"]`},
		{"an empty command", "services: {a: {command: ['', x]}}", `berth.yaml:1: services.a.command: must begin with the name of a program`},
		{"no text", "services: {a: {command: {x: y}}}", `berth.yaml:1: services.a.command: must be a list such as [first, second], not a section`},
		{"settings without a command", "services:\n  a:\n    models: [m]\n    ready: /health\n    user: u\n", "berth.yaml:3: services.a.models: is for a program that berth runs, and the service has none: set services.a.command too\n" +
			"berth.yaml:4: services.a.ready.path: is for a program that berth runs, and the service has none: set services.a.command too\n" +
			"berth.yaml:5: services.a.user: is for a program that berth runs, and the service has none: set services.a.command too"},
		{"variables", "services:\n  a:\n    command: a\n    env: {1A: x}\n  b:\n    command: b\n    env: {BERTH_LEASE: x}\n  c:\n    command: c\n    env: [A=1]\n  d:\n    command: d\n    env: {A: [1]}\n",
			"berth.yaml:4: services.a.env: \"1A\" is not the name of a variable: use letters, digits and underscores, the first no digit\n" +
				"berth.yaml:7: services.b.env: BERTH_LEASE is berth's own: berth sets it for the program\n" +
				"berth.yaml:10: services.c.env: must be variables such as {NAME: value}, not a list\n" +
				"berth.yaml:13: services.d.env: A must be text, not a list"},
		{"two ways to be ready", "services:\n  a:\n    command: a\n    ready: {path: /h, log: up}\n", "berth.yaml:4: services.a.ready.path: is set beside services.a.ready.log: a server shows in one way that it is ready"},
		{"half a sleep", "services:\n  a:\n    command: a\n    sleep: [{path: /s}]\n  b:\n    command: b\n    wake: [{path: /w}]\n  c:\n    command: c\n    away: sleep\n",
			"berth.yaml:4: services.a.sleep: needs the requests that wake the server: set services.a.wake\n" +
				"berth.yaml:7: services.b.wake: needs the requests that make the server sleep: set services.b.sleep\n" +
				"berth.yaml:10: services.c.away: is sleep, and the server cannot: set services.c.sleep and services.c.wake, or another way"},
		{"requests", "services:\n  a:\n    command: a\n    sleep: [{method: EAT, path: /s}]\n    wake: [{method: POST}]\n  b:\n    command: b\n    sleep: [/s]\n    wake: [{path: s}]\n  c:\n    command: c\n    sleep: [{path: /s, verb: POST}]\n    wake: [{path: /w}]\n",
			"berth.yaml:4: services.a.sleep: \"EAT\" is not a method of a request: use POST, GET, PUT, PATCH or DELETE\n" +
				"berth.yaml:5: services.a.wake: a request has no path: write it as {method: POST, path: /sleep}\n" +
				"berth.yaml:8: services.b.sleep: must be a list of requests such as [{method: POST, path: /sleep}]\n" +
				"berth.yaml:9: services.b.wake: \"s\" is not a path of a request: use one such as /health, without spaces\n" +
				"berth.yaml:12: services.c.sleep.[0].verb: is not a part of a request: it can have method, path, body"},
		{"models that mean two services", "services:\n  a: {command: a, models: [m, x]}\n  b: {command: b, models: [m]}\n  x: {command: x}\n",
			"berth.yaml:2: services.a.models: the model \"x\" means the service x already: a request could not tell which of them it is for\n" +
				"berth.yaml:3: services.b.models: the model \"m\" means the service a already: a request could not tell which of them it is for"},
		{"ports", "front: {listen: '127.0.0.1:9000'}\nservices:\n  a: {command: a, port: 9001}\n  b: {command: b, port: 9001}\n  c: {command: c, port: 9000}\n  d: {command: d, port: 80}\n",
			"berth.yaml:4: services.b.port: 9001 is also the port of the service a: give one of them another, or leave it out\n" +
				"berth.yaml:5: services.c.port: 9000 is the port of the front (front.listen): give the service another, or leave it out\n" +
				"berth.yaml:6: services.d.port: must be 1024 to 65535, not 80"},
		{"memory without a unit", "services: {a: {command: a, memory: 12}}", "berth.yaml:1: services.a.memory: must be at least 64 MiB, not 12"},
		{"groups", "services:\n  a: {users: ['@students']}\n  b: {users: ['group:x']}\n  c: {users: ['token:']}\n",
			"berth.yaml:2: services.a.users: \"@students\" is a group, and the front knows users by their names, not by their groups: name the users, or make a token for them (token:NAME)\n" +
				"berth.yaml:3: services.b.users: \"group:x\" is a group, and the front knows users by their names, not by their groups: name the users, or make a token for them (token:NAME)\n" +
				"berth.yaml:4: services.c.users: \"token:\" is not a user name: use a login name, a user id, token:NAME or cert:NAME"},
		{"an open front", "front: {listen: '0.0.0.0:80'}", "berth.yaml:1: front.listen: 0.0.0.0:80 can be reached from other machines, and without TLS everybody on the way can read tokens: set front.tls_cert and front.tls_key, or listen on 127.0.0.1. With daemon.insecure: true it listens anyway"},
		{"half a certificate", "front: {listen: '127.0.0.1:80', tls_key: /k}", "berth.yaml:1: front.tls_key: needs its certificate: set front.tls_cert"},
		{"the address of the daemon", "front: {listen: '127.0.0.1:8000'}", "berth.yaml:1: front.listen: is the address of the daemon (daemon.listen): the front needs one of its own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := merge(c.yaml, "", nil, nil)
			if diff := cmp.Diff(c.want, lines(err)); diff != "" {
				t.Errorf("complaints (-want +got), settings %v:\n%s", s, diff)
			}
		})
	}
}

func TestUsersOfAService(t *testing.T) {
	s, err := merge("services: {a: {users: [alice, '1000', 'token:ci', 'cert:node7']}}", "", nil, nil)
	if got := must(t, s, err).Config.Services["a"].Users; len(got) != 4 || got[2] != "token:ci" {
		t.Errorf("users are %q", got)
	}
}

// A program that was set at run time is the same after a restart, and replaces that of the
// file as a whole.
func TestChangeOfAProgram(t *testing.T) {
	const yaml = "services:\n  a:\n    command: [old, --x]\n    env: {A: file, B: file}\n"
	s, err := merge(yaml, "", nil, nil)
	body := `{"services": {"a": {"command": "new 'two words'", "env": {"B": "hush"}, "sleep": [{"path": "/s"}], "wake": [{"method": "GET", "path": "/w", "body": "x"}], "ready": {"tcp": "true"}}}}`
	next, saved, err := must(t, s, err).Change([]byte(body))
	changed := must(t, next, err).Config.Services["a"].Program
	want := config.Program{
		Command: []string{"new", "two words"}, Env: config.Variables{"B": "hush"}, Ready: config.Ready{TCP: "true"},
		Sleep: []config.Call{{Method: "POST", Path: "/s"}}, Wake: []config.Call{{Method: "GET", Path: "/w", Body: "x"}},
	}
	if diff := cmp.Diff(want, changed, equal); diff != "" {
		t.Error(diff)
	}
	again, err := merge(yaml, string(saved), nil, nil)
	if diff := cmp.Diff(next.Config, must(t, again, err).Config, equal); diff != "" {
		t.Errorf("after a restart: %s", diff)
	}
	for _, f := range next.All() {
		if strings.Contains(f.Value, "hush") {
			t.Errorf("a secret is in %+v", f)
		}
	}
	if wire, err := next.Config.Changeable(); err != nil || strings.Contains(string(wire), "hush") {
		t.Errorf("%v, or a secret is in %s", err, wire)
	}
	if was := s.Config.Services["a"].Env; was["B"] != "file" {
		t.Errorf("the settings before are changed: %q", was["B"])
	}
}

func TestPrivate(t *testing.T) {
	for name, want := range map[string]bool{
		"services.a.command": true, "services.a.env": true, "services.b.directory": true, "services.a.sleep": true, "services.a.wake": true,
		"services.a.user": false, "services.a.ready.path": false, "services.a.models": false, "services.a": false, "gpu.temp_optimal": false, "": false, "nothing.x": false, "front.tls_key": true, "front.listen": false,
	} {
		if got := config.Private(name); got != want {
			t.Errorf("%s is private: %v", name, got)
		}
	}
}
