// Package access decides who may do what. A Caller is what the kernel says about
// the other end of a connection; it makes an Actor with a Role, and May returns
// whether that actor may do something to an object. Whatever is not known counts
// against the caller.
package access

// Door is the way a caller came in.
type Door string

// The doors.
const (
	Socket Door = "socket" // the Unix socket
	TCP    Door = "tcp"
	Inside Door = "process" // a command that runs the daemon in its own process
	Itself Door = "daemon"  // none: the daemon does it by itself
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
	Token bool // it showed the token of the daemon
	UID   UID
	Place Place
}

// UID is a user id as far as it is known. The zero value is not known: user 0 is
// root, whom nobody is taken for by mistake.
type UID struct {
	id    int
	known bool
}

// KnownUID returns the id of a user that the kernel named for certain.
func KnownUID(id int) UID { return UID{id, true} }

// Get returns the id; false: it is not known.
func (u UID) Get() (id int, known bool) { return u.id, u.known }

// Or returns the id, or another number where it is not known.
func (u UID) Or(otherwise int) int {
	if !u.known {
		return otherwise
	}
	return u.id
}

// Known reports whether the id is known.
func (u UID) Known() bool { return u.known }

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

// Actor returns who c is in a daemon that runs as the user with the id daemon,
// without a name. One who may only look is nobody in particular: uid 0 in a
// container is not the user root of this machine. Nor is one who shows a token:
// it may be anybody's.
func (c Caller) Actor(daemon int) Actor {
	a := Actor{UID: NoUID, Door: c.Door, Role: c.Role(daemon)}
	switch {
	case c.Token:
		a.User, a.Token = "token", DaemonToken
	case a.Role < User:
		a.User = "unknown"
	default:
		a.UID = c.UID.Or(NoUID)
	}
	return a
}
