package programs

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/batch/remote"
	"github.com/berth-gpu/berth/internal/batch/transport"
)

func TestParseHosts(t *testing.T) {
	way := func(host string) transport.Way { return transport.SSH([]string{"ssh"}, host, "berth") }
	for _, c := range []struct{ list, want, err string }{
		{"gpu1,gpu2:2, me@gpu3", "gpu1 0, gpu2 2, me@gpu3 0", ""},
		{".,gpu1.lab.example:1", ". 0, gpu1.lab.example 1", ""},
		{"10.0.0.1,fe80::1,[fe80::2],[fe80::3]:4", "10.0.0.1 0, fe80::1 0, fe80::2 0, fe80::3 4", ""},
		{"me@2001:db8::5,me@gpu3:2", "me@2001:db8::5 0, me@gpu3 2", ""},
		{"gpu1:0", "", "how many workers"},
		{"gpu1:ssh", "", "how many workers"},
		{"gpu1:2222", "", "its port belongs into ~/.ssh/config"},
		{"gpu1,,gpu2", "", "not the name of a host"},
		{"-oProxyCommand=x", "", "not the name of a host"},
		{"gpu 1", "", "not the name of a host"},
		{"gpu1,gpu1:2", "", "stands there twice"},
	} {
		hosts, err := ParseHosts(strings.Split(c.list, ","), way)
		var got []string
		for _, h := range hosts {
			got = append(got, fmt.Sprint(h.Way.Host, " ", h.Most))
		}
		if strings.Join(got, ", ") != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v", c.list, got, err)
		}
	}
}

// A run waits for hosts that may come, and does not for those that a person has to mend.
func TestHostsThatAreWaitedFor(t *testing.T) {
	f := &fleet{o: HostOptions{BatchOptions: BatchOptions{Say: func(string, ...any) {}}}, changed: make(chan struct{})}
	slow, closed := &host{Host: Host{Way: transport.Way{Host: "slow"}}}, &host{Host: Host{Way: transport.Way{Host: "closed"}}}
	f.hosts = []*host{slow, closed}
	if !f.expecting() {
		t.Error("hosts that were not tried are not expected")
	}
	f.failed(closed, &transport.Failure{Text: "a password", Lasting: true})
	if !closed.hopeless() || slow.hopeless() || !f.expecting() {
		t.Error("a host that wants a password is waited for, or another one is not")
	}
	for range triesAtFirst {
		f.failed(slow, &transport.Failure{Text: "it does not answer"})
	}
	if !slow.hopeless() || f.expecting() {
		t.Error("a host that never answers is waited for")
	}
	err := f.refusal(map[*host]error{})
	if got := err.Error(); !strings.Contains(got, "slow: it does not answer; closed: a password") {
		t.Error(got)
	}
	f.set(slow, &remote.Session{})
	f.lost(slow, io.EOF, true)
	if slow.hopeless() || slow.tries != 1 {
		t.Errorf("a host that was there is not waited for, or not tried soon: %d tries", slow.tries)
	}
	f.failed(slow, &remote.Refusal{Text: "a full disk", Lasting: true})
	if slow.hopeless() || !errors.As(slow.last, new(*remote.Refusal)) {
		t.Error("a host that was there is given up")
	}
}
