package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
)

// elsewhere keeps idle connections open from another machine, which is a network namespace,
// and looks whether an operator with a token, on a third one, is still served.
func elsewhere(ctx context.Context, a *arena) (v verdict, err error) {
	var other *actor // keeps the namespace; both ends of the cable go with it
	if other, err = a.act(ctx, attacker, unix.CLONE_NEWNET, "idle", "", nil); err != nil {
		v.skipped = "no network namespace can be made here: " + err.Error()
		return v, nil
	}
	defer other.stop()
	// The addresses are those for measurements between networks, see RFC 2544.
	net24 := fmt.Sprintf("198.18.%d.", os.Getpid()%256)
	here, stranger, operator := net24+"1", net24+"2", net24+"3"
	cable, pid := fmt.Sprintf("bh%d", os.Getpid()), fmt.Sprint(other.pid())
	for _, command := range []string{
		"ip link add " + cable + " type veth peer name eth0 netns " + pid,
		"ip address add " + here + "/24 dev " + cable,
		"ip link set " + cable + " up",
		"nsenter --net --target " + pid + " ip address add " + stranger + "/24 dev eth0",
		"nsenter --net --target " + pid + " ip address add " + operator + "/24 dev eth0",
		"nsenter --net --target " + pid + " ip link set eth0 up",
	} {
		words := strings.Fields(command)
		if said, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil {
			v.skipped = fmt.Sprintf("no other machine can be played here: %s: %v: %s", command, err, cut(string(said), 100))
			return v, nil
		}
	}
	d, err := a.serve(ctx, setup{config: "daemon: {insecure: true}", flags: []string{"--listen", net.JoinHostPort(here, "0")}})
	if err != nil {
		return v, err
	}
	var token api.NewToken
	if err := d.root(ctx, "POST", "/api/tokens", `{"name":"far","role":"operator"}`, &token); err != nil {
		return v, err
	}
	from := func(address string) door { at := d.tcp; at.From = address; return at }
	whoami := call{Method: "GET", Path: "/api/whoami", Token: token.Secret}
	lease := call{Method: "POST", Path: "/api/leases", Body: `{"memory_mb":1,"slots":0,"ttl_seconds":60}`, Token: token.Secret}
	return v, inNetworkOf(other, func() error {
		for _, idle := range []int{0, 64, a.size(100, 2000)} {
			if _, err := a.act(ctx, attacker, 0, "hold", askHold{Door: from(stranger), Idle: idle}, nil); err != nil {
				return err
			}
			got, err := a.calls(ctx, victim, from(operator), whoami, lease)
			if err != nil {
				return err
			}
			if idle == 0 && got[1].Status != 201 {
				return fmt.Errorf("the operator is not served before the attack either: %v", got)
			}
			for i, each := range got {
				if each.Status/100 != 2 {
					v.gain("beside %d idle connections of a stranger, an operator's call %d from another machine is answered with status %d %s", idle, i+1, each.Status, cut(each.Body, 100))
				}
			}
		}
		files, err := d.files()
		if err == nil && files >= filesLimit {
			v.gain("the daemon has %d files open (the most is %d)", files, filesLimit)
		}
		v.noting("the daemon has %d files open", files)
		return errors.Join(err, d.small(&v, "the daemon"))
	})
}

// inNetworkOf calls f so that the processes it starts are in the network namespace of another.
func inNetworkOf(other *actor, f func() error) error {
	runtime.LockOSThread() // if the thread cannot go back, it ends with this goroutine
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer own.Close()
	theirs, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", other.pid()))
	if err != nil {
		return err
	}
	defer theirs.Close()
	if err := unix.Setns(int(theirs.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	failed := f()
	if err := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); err != nil {
		return errors.Join(failed, err)
	}
	runtime.UnlockOSThread()
	return failed
}
