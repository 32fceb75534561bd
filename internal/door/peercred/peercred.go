// Package peercred finds out who is at the other end of a connection, from the kernel
// alone: the user, the process if that is certain, and whether the process lives in a
// container.
//
// It also limits how many connections one user may have.
package peercred

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/process"
)

// Kernel asks the kernel of this machine.
type Kernel struct {
	processes process.Table
	root      string   // where the proc file system is
	own       [2]links // of the first process that the daemon sees, and of the daemon
	mapped    bool     // the daemon sees every user of the machine under an id of its own
	grouped   bool     // the daemon sees every group under an id of its own

	asking    sync.Mutex // guards what follows
	netlink   int        // a socket on which the kernel answers; 0 until it is opened
	questions uint32     // number of questions asked
}

// at returns a peer with only the door known.
func at(door access.Door) access.Peer { return access.Peer{Caller: access.Caller{Door: door}} }

// links are the namespaces of a process that matter, as /proc names them.
type links struct{ pid, user string }

// New returns a Kernel for the daemon that calls it.
func New(processes process.Table) *Kernel {
	k := &Kernel{processes: processes, root: "/proc"}
	for i, who := range []string{"1", "self"} {
		k.own[i], _ = k.links(who) // an ordinary user may not read the first process
	}
	k.mapped = wholeMap(filepath.Join(k.root, "self/uid_map"))
	k.grouped = wholeMap(filepath.Join(k.root, "self/gid_map"))
	return k
}

// wholeMap reports whether a user namespace maps every id to itself. In any other
// namespace, the kernel shows all unmapped users under one id.
func wholeMap(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && strings.Join(strings.Fields(string(text)), " ") == "0 0 4294967295"
}

// overflowUID is the id under which the kernel shows unmapped users.
const overflowUID = 65534

// user returns an id that the kernel named, if it stands for a single user.
func (k *Kernel) user(uid uint32) access.UID {
	if uid == overflowUID && !k.mapped || uid == ^uint32(0) {
		return access.UID{}
	}
	return access.KnownUID(int(uid))
}

func (k *Kernel) links(who string) (links, error) {
	pid, err := os.Readlink(filepath.Join(k.root, who, "ns/pid"))
	if err != nil {
		return links{}, err
	}
	user, err := os.Readlink(filepath.Join(k.root, who, "ns/user"))
	return links{pid, user}, err
}

// settle fills in the process of a peer and the namespaces it lives in.
func (k *Kernel) settle(p *access.Peer, id process.ID) {
	p.PID, p.Start, p.Name = id.PID, id.Start, k.processes.Name(id.PID)
	found, err := k.links(strconv.Itoa(id.PID))
	if err != nil {
		return
	}
	p.Namespace = found.pid
	switch home := cmp.Or(k.own[0], k.own[1]); {
	case home == (links{}): // the daemon cannot read its own namespaces
	case found == home:
		p.Place = access.Here
	default:
		p.Place = access.Elsewhere
	}
}

// Contained returns a sentence about what a daemon in a container cannot see, or ""
// outside a container. The kernel gives the first namespaces of a machine fixed
// numbers.
func (k *Kernel) Contained() string {
	switch own := k.own[1]; {
	case own.pid == "":
		return "The daemon cannot read its own namespaces in /proc, so it takes nobody for root."
	case own.pid != "pid:[4026531836]":
		return "The daemon runs in a PID namespace of its own (a container): it does not see processes outside of it, so what they use counts as foreign, and no lease can be bound to them. Run it with the PID namespace of the host."
	case !k.mapped:
		return "The daemon runs in a user namespace of its own: it cannot tell users apart that are not mapped into it, and lets them look only."
	}
	return ""
}
