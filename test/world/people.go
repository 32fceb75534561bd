package world

import (
	"errors"
	"os/user"
	"strconv"
	"sync"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/process"
)

// The users of the machine. The first five do what users do, and olga is an operator.
var names = []string{"ada", "bob", "carol", "dave", "eve", "olga", "berth-front", "server"}

const (
	firstUID = 1000
	labGID   = 2000
	ordinary = 5 // how many users are ordinary ones
	olga     = firstUID + 5
	frontUID = firstUID + 6
)

func nameOf(uid int) string {
	if uid == 0 {
		return "root"
	}
	return names[uid-firstUID]
}

// people is the user database.
type people struct {
	mu     sync.Mutex
	hung   chan struct{} // closed when the database answers again; nil: it answers
	broken bool
	silent bool // it was, at some time
}

func (p *people) wasSilent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silent
}

// ask waits for the database.
func (p *people) ask() error {
	p.mu.Lock()
	hung, broken := p.hung, p.broken
	p.silent = p.silent || broken
	p.mu.Unlock()
	if hung != nil {
		<-hung
	}
	if broken {
		return errors.New("the server of users has failed")
	}
	return nil
}

func (p *people) hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent = true; p.hung == nil {
		p.hung = make(chan struct{})
	}
}

func (p *people) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken = false; p.hung != nil {
		close(p.hung)
		p.hung = nil
	}
}

func (p *people) lookUp(name string) (uid int, groups []int, err error) {
	if err := p.ask(); err != nil {
		return 0, nil, err
	}
	if name == "root" {
		return 0, []int{0}, nil
	}
	for i, n := range names {
		if n == name {
			return firstUID + i, []int{firstUID + i, labGID}, nil
		}
	}
	return 0, nil, user.UnknownUserError(name)
}

func (p *people) database() *users.Database {
	return &users.Database{
		Account: p.lookUp,
		Name: func(uid int) (string, error) {
			if err := p.ask(); err != nil {
				return "", err
			}
			if uid == 0 || uid >= firstUID && uid < firstUID+len(names) {
				return nameOf(uid), nil
			}
			return "", user.UnknownUserIdError(uid)
		},
		Group: func(name string) (int, error) {
			if err := p.ask(); err != nil {
				return 0, err
			}
			if name == "lab" {
				return labGID, nil
			}
			return strconv.Atoi(name)
		},
	}
}

// peer is what the kernel says of a process at the other end of a connection.
func peer(uid int, id process.ID) access.Peer {
	return access.Peer{
		Caller: access.Caller{Door: access.Socket, UID: access.KnownUID(uid), Groups: []int{uid, labGID}, Place: access.Here},
		PID:    id.PID, Start: id.Start, Name: "program",
	}
}
