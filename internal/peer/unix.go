package peer

import (
	"net"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/access"
)

// Unix identifies the other end of a Unix socket: the user and the process that
// connected. If the process is gone, or another one may have its number, only
// the user is known.
func (k *Kernel) Unix(c *net.UnixConn) access.Peer {
	p := at(access.Socket)
	raw, err := c.SyscallConn()
	if err != nil {
		return p
	}
	_ = raw.Control(func(fd uintptr) { k.credentials(int(fd), &p) }) // an error leaves p as it is: unknown
	return p
}

// User identifies only the user at the other end of a Unix socket. That costs
// little.
func (k *Kernel) User(c *net.UnixConn) access.Peer {
	p := at(access.Socket)
	raw, err := c.SyscallConn()
	if err != nil {
		return p
	}
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			p.UID = k.user(peer.Uid)
		}
	})
	return p
}

func (k *Kernel) credentials(fd int, p *access.Peer) {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return
	}
	p.UID = k.user(peer.Uid)
	if peer.Pid <= 0 { // it is outside of the PID namespace of the daemon
		return
	}
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	pinned := err == nil
	if pinned {
		defer unix.Close(pidfd)
	} else if err != unix.ENOPROTOOPT { // a kernel before 6.5 has no such option
		return
	}
	before, err := k.processes.Identify(int(peer.Pid))
	if err != nil {
		return
	}
	found := *p
	k.settle(&found, before)
	// What was read is about the process that connected only if that still has
	// its number: a pidfd shows its end, and without one the start time is read
	// again.
	if pinned && ended(pidfd) {
		return
	}
	if after, err := k.processes.Identify(before.PID); err == nil && after == before {
		*p = found
	}
}

// ended asks a pidfd, without waiting, whether its process has ended.
func ended(pidfd int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
		if err != unix.EINTR {
			return err != nil || n > 0
		}
	}
}
