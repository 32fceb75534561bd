package peercred

import (
	"net"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/process"
)

// Unix identifies the other end of a Unix socket: the user and the process that
// connected. If the process is gone, or another one may have its number, Unix returns
// only the user.
func (k *Kernel) Unix(c *net.UnixConn) access.Peer {
	return socketPeer(c, func(fd int, p *access.Peer) { k.credentials(fd, p) })
}

// User identifies only the user at the other end of a Unix socket, at little cost.
func (k *Kernel) User(c *net.UnixConn) access.Peer {
	return socketPeer(c, func(fd int, p *access.Peer) {
		if peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			p.UID = k.user(peer.Uid)
		}
	})
}

// Groups identifies only the groups of the other end of a Unix socket, nil if they are not
// known.
func (k *Kernel) Groups(c *net.UnixConn) []int {
	return socketPeer(c, func(fd int, p *access.Peer) {
		if peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			p.Groups = k.groups(fd, peer.Gid)
		}
	}).Groups
}

// socketPeer returns the peer that fill finds out about. An error leaves it unknown.
func socketPeer(c *net.UnixConn, fill func(fd int, p *access.Peer)) access.Peer {
	p := at(access.Socket)
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { fill(int(fd), &p) })
	}
	return p
}

func (k *Kernel) credentials(fd int, p *access.Peer) {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return
	}
	p.UID, p.Groups = k.user(peer.Uid), k.groups(fd, peer.Gid)
	if peer.Pid <= 0 { // the process is outside the PID namespace of the daemon
		return
	}
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	pinned := err == nil
	if pinned {
		defer unix.Close(pidfd)
	} else if err != unix.ENOPROTOOPT { // kernels before 6.5 lack the option
		return
	}
	before, err := k.processes.Identify(int(peer.Pid))
	if err != nil {
		return
	}
	found := *p
	k.settle(&found, before)
	// What was read is about the process that connected only if that process still has
	// its number. A pidfd shows its end; without one, the start time is read again.
	if pinned {
		if over, err := process.Ended(pidfd); over || err != nil {
			return
		}
	}
	if after, err := k.processes.Identify(before.PID); err == nil && after == before {
		*p = found
	}
}

// groups returns the groups that the other end had when it connected: its own and
// the supplementary ones. It returns nil if the kernel does not say, or if the
// daemon cannot tell groups apart.
func (k *Kernel) groups(fd int, own uint32) []int {
	if !k.grouped {
		return nil
	}
	list := make([]uint32, 32) // most users have fewer
	for {
		size := uint32(len(list) * 4)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&list[0])), uintptr(unsafe.Pointer(&size)), 0)
		if errno == unix.ERANGE && int(size/4) > len(list) && size <= 1<<18 { // the kernel reports the number of groups
			list = make([]uint32, size/4)
			continue
		}
		if errno != 0 {
			return nil
		}
		groups := []int{int(own)}
		for _, gid := range list[:size/4] {
			groups = append(groups, int(gid))
		}
		return groups
	}
}
