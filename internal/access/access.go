// Package access decides what a caller may do, from what the kernel says about
// the other end of its connection. Whatever is not known counts against the
// caller.
package access

import "github.com/berth-gpu/berth/gpu"

// Door is the way a caller came in.
type Door string

// The doors.
const (
	Socket Door = "socket" // the Unix socket
	TCP    Door = "tcp"
)

// Place is where the process of a caller lives, seen from the daemon.
type Place int

// The places. The zero value is that nobody knows.
const (
	Unknown   Place = iota
	Here            // in the PID and user namespaces of the daemon's machine
	Elsewhere       // in another PID or user namespace: a container
)

// Caller is what is known about the other end of a connection.
type Caller struct {
	Door  Door
	Token bool         // it showed the token of the daemon
	UID   gpu.Opt[int] // absent: the kernel does not say for certain
	Place Place
}

// Peer is what the kernel says about the other end of a connection. The zero
// value knows nothing.
type Peer struct {
	Caller
	PID   int    // of its process; 0: not known for certain
	Start uint64 // when that process started, in clock ticks since boot
	Name  string // of the process

	// Namespace names the PID namespace of the process, as its link in /proc
	// does; empty: not known. A pid that the caller writes down is a number in
	// that namespace.
	Namespace string

	// Inode identifies the socket of a TCP caller, by which its process can be
	// found; 0: not known.
	Inode uint32
}

// Role is what a caller may do. A greater role may do all that a lesser one may.
type Role int

// The roles. The zero value is the least.
const (
	Stranger Role = iota // may do nothing
	Viewer               // may look at devices and sums
	User                 // may lease, and change what is its own
	Admin                // may change everything, for everybody
)

// String names the role as people and the API do.
func (r Role) String() string {
	return [...]string{"stranger", "viewer", "user", "admin"}[r]
}

// Role is what c may do in a daemon that runs as the user with the id daemon.
//
// Administration over TCP needs the token, always. Over the socket, root and
// the daemon's own user administer, unless they call from a container: uid 0 in
// there is not the root of this machine. A daemon that an ordinary user runs is
// private, so others are turned away from its TCP port.
func (c Caller) Role(daemon int) Role {
	uid, known := c.UID.Get()
	switch {
	case c.Token:
		return Admin
	case c.Door == TCP && daemon != 0 && (!known || uid != daemon):
		return Stranger
	case !known:
		return Viewer
	case uid == 0 && c.Place != Here:
		return Viewer
	case c.Door == Socket && c.Place == Here && (uid == 0 || uid == daemon):
		return Admin
	case c.Door == Socket || c.Door == TCP:
		return User
	}
	return Stranger // through a door that nobody thought of
}
