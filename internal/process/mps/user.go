package mps

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"
)

// lookedUpWithin is how long the user database may take to answer. The database may be on
// another machine.
const lookedUpWithin = 2 * time.Second

// credential returns the user to run a daemon as; nil means the user of this
// process.
func (p *Pool) credential(ctx context.Context, uid int) (*syscall.Credential, error) {
	own := os.Geteuid()
	switch {
	case uid == own:
		return nil, nil
	case own != 0:
		return nil, fmt.Errorf("only a daemon that runs as root can start MPS for user %d", uid)
	case uid < 0:
		return nil, fmt.Errorf("the lease belongs to no user of this machine: ask for it through the socket, or with --enforce framework")
	}
	// The database may hang: it is asked in a goroutine of its own, and at most one query
	// about a user runs at a time.
	found := p.lookups.DoChan(strconv.Itoa(uid), func() (any, error) { return p.lookUp(uid) })
	select {
	case l := <-found:
		as, _ := l.Val.(*syscall.Credential)
		return as, l.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(lookedUpWithin):
		return nil, fmt.Errorf("the user database did not say within %s who user %d is: see whether `id %d` answers, and try again", lookedUpWithin, uid, uid)
	}
}

// lookUpUser finds a user with all groups, because one of them may be the group with
// access to the device.
func lookUpUser(uid int) (*syscall.Credential, error) {
	found, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	as := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	groups, err := found.GroupIds()
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		if n, err := strconv.ParseUint(g, 10, 32); err == nil {
			as.Groups = append(as.Groups, uint32(n))
		}
	}
	return as, nil
}
