// Package access decides who may do what.
//
// A Caller is what the kernel says about the other end of a connection; it
// makes an Actor with a Role, and May returns whether that actor may do
// something to an object. Whatever is not known counts against the caller.
//
// Pure: no clock, no I/O.
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
	Door   Door
	UID    UID
	Groups []int // the groups of its process, as the kernel names them; nil: not known
	Place  Place
	Shown  Credential // what it showed; the zero value: nothing
}

// Credential is something that a caller showed and that was checked.
type Credential struct {
	Kind    CredentialKind
	Name    string // of the token, or the common name of the certificate
	Role    Role   // that a token gives; the rules say what a certificate gives
	Service string // the only service that a token may act for; empty: any
}

// CredentialKind is the kind of a credential.
type CredentialKind int

// The kinds. The zero value is none.
const (
	NoCredential CredentialKind = iota
	Token
	Certificate
	Session // which a user of this machine began, who had called over the Unix socket
)

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
