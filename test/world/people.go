package world

import (
	"errors"
	"os/user"
	"strconv"
	"sync"
	"time"

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
	slow   time.Duration   // what an answer takes
	named  map[string]bool // whom it has named
}

// knows reports whether the database has named a user, so that the limits of that user are known.
func (p *people) knows(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.named[name]
}

// names notes that it has named a user.
func (p *people) names(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.named == nil {
		p.named = map[string]bool{}
	}
	p.named[name] = true
}

// ask waits for the database.
func (p *people) ask() error {
	p.mu.Lock()
	hung, broken, slow := p.hung, p.broken, p.slow
	p.mu.Unlock()
	if hung != nil {
		<-hung
	}
	time.Sleep(slow)
	if broken {
		return errors.New("the server of users has failed")
	}
	return nil
}

func (p *people) hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hung == nil {
		p.hung = make(chan struct{})
	}
}

func (p *people) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken, p.slow = false, 0; p.hung != nil {
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
			p.names(n)
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
				p.names(nameOf(uid))
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
