// Package access decides who may do what.
//
// A Caller is what the kernel says about the other end of a connection; it
// makes an Actor with a Role, and May returns whether that actor may do
// something to an object. Whatever is not known counts against the caller.
//
// Pure: no clock, no I/O.
package access

import "net/netip"

// Door is how a caller reached the daemon.
type Door string

// The doors.
const (
	Socket Door = "socket" // the Unix socket
	TCP    Door = "tcp"
	Inside Door = "process" // a command that runs the daemon in its own process
	Itself Door = "daemon"  // none: the daemon acts by itself
)

// Place is where the process of a caller runs, seen from the daemon.
type Place int

// The places. The zero value means unknown.
const (
	Unknown   Place = iota
	Here            // in the PID and user namespaces of the daemon's machine
	Elsewhere       // in another PID or user namespace: a container
)

// Caller describes the other end of a connection.
type Caller struct {
	Door   Door
	UID    UID
	Groups []int // the groups of its process, from the kernel; nil if not known
	Place  Place
	Shown  Credential // the zero value means none
}

// From returns by what callers from an address are told apart. An IPv6 network of 64 bits
// counts as one address.
func From(address netip.Addr) string {
	address = address.Unmap().WithZone("")
	if network, err := address.Prefix(64); err == nil && address.Is6() {
		return network.String()
	}
	return address.String()
}

// Credential is a credential that a caller showed and the daemon verified.
type Credential struct {
	Kind    CredentialKind
	Name    string // name of the token, or common name of the certificate
	Role    Role   // role of a token; the rules give a certificate its role
	Service string // the only service that a token may act for; empty means any

	// As and UID name the user of this machine that a token is bound to. UID is unknown
	// if the token is bound to nobody.
	As  string
	UID UID
}

// CredentialKind is the kind of a credential.
type CredentialKind int

// The kinds. The zero value means none.
const (
	NoCredential CredentialKind = iota
	Token
	Certificate
	Session // begun by a user of this machine over the Unix socket
)

// UID is a user id, if it is known. The zero value means unknown, because user 0 is root
// and nobody must pass for root by mistake.
type UID struct {
	id    int
	known bool
}

// KnownUID returns the id of a user that the kernel named.
func KnownUID(id int) UID { return UID{id, true} }

// Get returns the id and whether it is known.
func (u UID) Get() (id int, known bool) { return u.id, u.known }

// Or returns the id, or otherwise if it is not known.
func (u UID) Or(otherwise int) int {
	if !u.known {
		return otherwise
	}
	return u.id
}

// Known reports whether the id is known.
func (u UID) Known() bool { return u.known }

// Peer holds what the kernel says about the other end of a connection. The zero value
// says nothing.
type Peer struct {
	Caller
	PID   int    // of its process; 0 if not known for certain
	Start uint64 // when that process started, in clock ticks since boot
	Name  string // of the process

	// Namespace names the PID namespace of the process, as its link in /proc does; empty
	// if not known. A pid that the caller names is a number in that namespace.
	Namespace string

	// Inode identifies the socket of a TCP caller, by which its process can be found; 0
	// if not known.
	Inode uint32
}
