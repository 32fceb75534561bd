package access

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Role says what a caller may do. A greater role may do everything that a lesser one may.
type Role int

// The roles. The zero value is the least.
const (
	Stranger Role = iota // may do nothing
	Scraper              // may read the metrics; only tokens have it
	Viewer               // may look at devices and sums
	User                 // may lease, and change what the user owns
	Operator             // may release, revoke and set thresholds and priorities for others
	Admin                // may set what ends processes, and give tokens and roles
)

var roleNames = [...]string{"stranger", "scraper", "viewer", "user", "operator", "admin"}

// String returns the name of the role, as in the API.
func (r Role) String() string {
	if r < Stranger || r > Admin {
		return "none"
	}
	return roleNames[r]
}

// ParseRole returns the role with this name. It does not accept stranger.
func ParseRole(name string) (Role, error) {
	for r := Scraper; r <= Admin; r++ {
		if roleNames[r] == name {
			return r, nil
		}
	}
	return Stranger, fmt.Errorf("there is no role %q: use one of %s", name, strings.Join(roleNames[Scraper:], ", "))
}

// Rules say which role a caller has. The zero value is for a daemon that runs as root and
// has given nobody a role.
type Rules struct {
	Daemon       int             // the user that the daemon runs as
	Users        map[int]Given   // by user id
	Groups       map[int]Given   // by group id, for callers on the socket; Stranger means no role
	Certificates map[string]Role // by common name
	Others       Role            // role of local users who were given none; Stranger means User

	// ContainersNeedToken refuses callers from other PID and user namespaces who show no
	// token.
	ContainersNeedToken bool

	// TCPNeedsToken refuses callers over TCP who show no credential, also those from this
	// machine.
	TCPNeedsToken bool
}

// Given is a role that the configuration gives.
type Given struct {
	Name string // name of the user or group, as configured
	Role Role
}

// Standing is the role of a caller, and why it has that role.
type Standing struct {
	Role  Role
	Cause Cause
	Group string // the group that gave the role, for ByGroup

	known bool // the caller is certainly the user whom the kernel names
}

// Cause is why a caller has a role.
type Cause int

// The causes.
const (
	NotIdentified Cause = iota // the kernel does not name the caller
	ByToken
	ByCertificate
	ByUnknownCertificate // the certificate has no role in the configuration
	ByRoot               // root or the daemon's own user, on the socket
	ByUser               // the configuration names the user
	ByGroup              // the configuration names a group of the user
	ByDefault            // every local user has it
	RootElsewhere        // uid 0, but perhaps in a container
	PrivateDaemon        // the daemon is another user's
	NeedsToken           // containers need a token here
)

// Standing returns the role of a caller.
//
// A token or a certificate replaces whatever the caller would be otherwise. A session
// gives its user the role that this user has on the socket. There, root and the daemon's
// own user are administrators, unless they call from a container: uid 0 in a container is
// not the root of this machine. Other users have the role of their own entry, or the
// highest of their groups, or that of everybody. Over TCP and from containers, the role
// is User at most. A daemon that an ordinary user runs is private and refuses others on
// its TCP port.
func (r *Rules) Standing(c *Caller) Standing {
	uid, known := c.UID.Get()
	switch {
	case c.Shown.Kind == Token:
		return Standing{Role: c.Shown.Role, Cause: ByToken, known: true}
	case c.Shown.Kind == Certificate:
		if role, given := r.Certificates[c.Shown.Name]; given {
			return Standing{Role: role, Cause: ByCertificate, known: true}
		}
		return Standing{Role: Viewer, Cause: ByUnknownCertificate, known: true}
	case c.Shown.Kind == Session:
		asOnSocket := *c
		asOnSocket.Door, asOnSocket.Shown = Socket, Credential{}
		return r.Standing(&asOnSocket)
	case c.Door != Socket && c.Door != TCP: // an unknown door
		return Standing{Role: Stranger, Cause: NotIdentified}
	case c.Door == TCP && r.Daemon != 0 && (!known || uid != r.Daemon):
		return Standing{Role: Stranger, Cause: PrivateDaemon}
	case r.ContainersNeedToken && c.Place != Here:
		return Standing{Role: Stranger, Cause: NeedsToken}
	case !known:
		return Standing{Role: Viewer, Cause: NotIdentified}
	case uid == 0 && c.Place != Here:
		return Standing{Role: Viewer, Cause: RootElsewhere}
	case c.Door == Socket && c.Place == Here && (uid == 0 || uid == r.Daemon):
		return Standing{Role: Admin, Cause: ByRoot, known: true}
	}
	s := r.given(uid, c.Groups)
	if c.Door == TCP || c.Place != Here {
		s.Role = min(s.Role, User)
	}
	return s
}

// given returns the role that the configuration gives a user.
func (r *Rules) given(uid int, groups []int) Standing {
	if own, given := r.Users[uid]; given {
		return Standing{Role: own.Role, Cause: ByUser, known: true}
	}
	best := Standing{Role: cmp.Or(r.Others, User), Cause: ByDefault, known: true}
	found := false
	for _, gid := range groups {
		if g := r.Groups[gid]; g.Role != Stranger && (!found || g.Role > best.Role) {
			best, found = Standing{Role: g.Role, Cause: ByGroup, Group: g.Name, known: true}, true
		}
	}
	return best
}

// Why returns the reasons for the role of a caller, a sentence each. The first one
// decides. If several entries of the configuration name the caller, the others follow.
func (r *Rules) Why(c *Caller) []string {
	s := r.Standing(c)
	why := []string{s.Reason()}
	if s.Cause == ByToken && c.Shown.UID.Known() {
		why = append(why, "an administrator bound the token to the user "+c.Shown.As)
	}
	if s.Cause != ByUser && s.Cause != ByGroup && s.Cause != ByDefault {
		return why
	}
	given := r.given(c.UID.Or(-1), c.Groups)
	if given.Role > s.Role {
		why = []string{
			"over TCP without a token, and from a container, nobody has more than the role " + s.Role.String(),
			"the configuration gives " + given.Role.String() + " on the Unix socket",
		}
	}
	for _, g := range r.Counting(c) {
		if g.Role == Stranger || given.Cause == ByGroup && g.Name == given.Group {
			continue
		}
		text := "the group " + g.Name + " gives " + g.Role.String()
		if given.Cause == ByUser {
			text += ", and the entry of the user is stronger"
		} else if g.Role < given.Role {
			text += ", and the higher role holds"
		}
		why = append(why, text)
	}
	return why
}

// Counting returns the groups of a caller that have an entry in the configuration, in the
// order of their ids.
func (r *Rules) Counting(c *Caller) []Given {
	var found []Given
	for _, gid := range slices.Compact(slices.Sorted(slices.Values(c.Groups))) {
		if g, listed := r.Groups[gid]; listed {
			found = append(found, g)
		}
	}
	return found
}

// Actor returns the actor for a caller, without a login name. It names no user for a
// caller whose identity is not certain: uid 0 in a container is not the user root of this
// machine. Nor does it for a caller with a token, which may be anybody's, unless an
// administrator has bound the token to a user.
func (r *Rules) Actor(c *Caller) Actor {
	s := r.Standing(c)
	a := Actor{UID: NoUID, Door: c.Door, Role: s.Role}
	switch {
	case c.Shown.Kind == Token && c.Shown.Name == DaemonToken:
		a.User, a.Token = DaemonUser, DaemonToken
	case c.Shown.Kind == Token && c.Shown.UID.Known():
		a.User, a.UID, a.Token = c.Shown.As, c.Shown.UID.Or(NoUID), c.Shown.Name
	case c.Shown.Kind == Token:
		a.User, a.Token, a.Service = TokenUser(c.Shown.Name), c.Shown.Name, c.Shown.Service
	case c.Shown.Kind == Certificate:
		a.User = CertificateUser(c.Shown.Name)
	case !s.known:
		a.User = "unknown"
	default:
		a.UID = c.UID.Or(NoUID)
	}
	return a
}

// DaemonUser is the user name for the holder of the token of the configuration.
const DaemonUser = "token"

// ClusterToken is the name of the token of a Kubernetes driver. The leases of its user
// belong to pods, which trust neither each other nor the driver's other pods.
const ClusterToken = "kubernetes"

// TokenUser returns the user name for the holder of a named token. No login name has a
// colon.
func TokenUser(name string) string { return "token:" + name }

// CertificateUser returns the user name for the holder of a client certificate.
func CertificateUser(name string) string { return "cert:" + name }

// reasons has a sentence for each cause; the name of the group follows that of ByGroup.
var reasons = [...]string{
	NotIdentified:        "the kernel does not say who the caller is",
	ByToken:              "the token gives it",
	ByCertificate:        "the configuration gives it to the name in the certificate",
	ByUnknownCertificate: "the configuration gives the name in the certificate no role",
	ByRoot:               "root and the user that the daemon runs as are administrators on the Unix socket",
	ByUser:               "the configuration gives it to the user",
	ByGroup:              "the configuration gives it to the group ",
	ByDefault:            "every local user has it",
	RootElsewhere:        "uid 0 in a container is not root of this machine",
	PrivateDaemon:        "the daemon is private to the user who runs it",
	NeedsToken:           "callers from containers need a token here",
}

// Reason returns in one sentence why a caller has its role.
func (s Standing) Reason() string { return reasons[s.Cause] + s.Group }
