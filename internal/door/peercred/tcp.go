package peercred

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/process"
)

// TCP identifies the user at the other end of a TCP connection within this machine.
// Call it when the connection is accepted, before reading anything. Only an established
// socket names its user: the kernel lists one that is closing under uid 0.
func (k *Kernel) TCP(c net.Conn) access.Peer {
	p := at(access.TCP)
	local, err := netip.ParseAddrPort(c.LocalAddr().String())
	remote, err2 := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil || err2 != nil || !remote.Addr().IsLoopback() && remote.Addr().Unmap() != local.Addr().Unmap() {
		return p // of another machine, whose users mean nothing here
	}
	found, err := k.lookUp(remote, local)
	if err != nil || found.state != established || !stillOpen(c) {
		return p
	}
	p.UID, p.Inode = k.user(found.uid), found.inode
	return p
}

// Listening returns the user whose socket gets the connections to a port on 127.0.0.1.
func (k *Kernel) Listening(port int) (access.UID, error) {
	local := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
	found, err := k.ask(question(unix.AF_INET, local, netip.AddrPortFrom(netip.IPv4Unspecified(), 0)))
	switch {
	case errors.Is(err, unix.ENOENT):
		return access.UID{}, ErrNotListening
	case err != nil:
		return access.UID{}, err
	case found.state != listening:
		return access.UID{}, ErrNotListening
	}
	return k.user(found.uid), nil
}

// ErrNotListening says that no socket listens on a port.
var ErrNotListening = errors.New("nothing listens there")

// stillOpen reports whether both ends have a connection open. After the other
// end resets it, another process may connect from the same port, and the
// kernel's answer is about that one.
func stillOpen(c net.Conn) bool {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	open := false
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		open = err == nil && info.State == established
	})
	return err == nil && open
}

// Find finds the process of a TCP peer and its namespaces. If other than exactly one
// process of the same user has the socket open, the process stays unknown. Find
// searches all processes, so call it only if needed.
func (k *Kernel) Find(p access.Peer) access.Peer {
	uid, known := p.UID.Get()
	if p.Door != access.TCP || p.Inode == 0 || !known {
		return p
	}
	target := fmt.Sprintf("socket:[%d]", p.Inode)
	var owner process.ID
	for _, pid := range k.processes.PIDs() {
		if theirs, err := k.processes.UID(pid); err != nil || theirs != uid || !k.hasOpen(pid, target) {
			continue
		}
		id, err := k.processes.Identify(pid)
		if err != nil || owner != (process.ID{}) {
			return p // several processes have it, or one that has just ended
		}
		owner = id
	}
	if owner == (process.ID{}) {
		return p
	}
	found := p
	k.settle(&found, owner)
	// The process is still the same if it still has the socket.
	if again, err := k.processes.Identify(owner.PID); err != nil || again != owner || !k.hasOpen(owner.PID, target) {
		return p
	}
	return found
}

// hasOpen reports whether a process has an open file whose link is target.
func (k *Kernel) hasOpen(pid int, target string) bool {
	for file := range k.processes.OpenFiles(pid) {
		if file == target {
			return true
		}
	}
	return false
}

// established is the kernel's number for the state of a connection that both ends have
// open.
const established = 1

// listening is the kernel's number for the state of a socket that accepts connections.
const listening = 10

// loopback is the number of the interface through which a machine calls itself, through
// any of its addresses.
const loopback = 1

// socket is the kernel's description of a TCP socket.
type socket struct {
	state byte
	uid   uint32
	inode uint32
}

// lookUp asks the kernel for exactly the socket that is connected from one address to
// another.
func (k *Kernel) lookUp(from, to netip.AddrPort) (socket, error) {
	family := uint8(unix.AF_INET)
	if from.Addr().Unmap().Is6() {
		family = unix.AF_INET6
	}
	found, err := k.ask(question(family, from, to))
	if errors.Is(err, unix.ENOENT) && family == unix.AF_INET {
		// A program with a socket for both families may have connected over IPv4.
		return k.ask(question(unix.AF_INET6, from, to))
	}
	return found, err
}

// The layout of linux/inet_diag.h.
const (
	headerSize   = 16
	questionSize = headerSize + 8 + 48
	answerSize   = 4 + 48 + 20
)

// question returns a request for exactly one socket.
func question(family uint8, from, to netip.AddrPort) []byte {
	b := make([]byte, questionSize)
	native := binary.NativeEndian
	native.PutUint32(b[0:], questionSize)
	native.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	native.PutUint16(b[6:], unix.NLM_F_REQUEST)
	b[16], b[17] = family, unix.IPPROTO_TCP
	native.PutUint32(b[20:], 1<<established)
	binary.BigEndian.PutUint16(b[24:], from.Port())
	binary.BigEndian.PutUint16(b[26:], to.Port())
	putAddress(b[28:44], family, from.Addr())
	putAddress(b[44:60], family, to.Addr())
	native.PutUint32(b[60:], loopback)   // also finds a socket that is bound to no interface
	native.PutUint32(b[64:], ^uint32(0)) // any cookie
	native.PutUint32(b[68:], ^uint32(0))
	return b
}

func putAddress(b []byte, family uint8, a netip.Addr) {
	if family == unix.AF_INET {
		four := a.Unmap().As4()
		copy(b, four[:])
		return
	}
	sixteen := a.As16()
	copy(b, sixteen[:])
}

// ask sends a question to the kernel, which answers at once. It opens its
// socket only once, because it asks about every connection.
func (k *Kernel) ask(question []byte) (socket, error) {
	k.asking.Lock()
	defer k.asking.Unlock()
	if k.netlink == 0 {
		fd, err := openNetlink()
		if err != nil {
			return socket{}, fmt.Errorf("ask the kernel whose connection it is: %w", err)
		}
		k.netlink = fd
	}
	k.questions++
	binary.NativeEndian.PutUint32(question[8:], k.questions)
	found, err := exchange(k.netlink, question)
	if err != nil && !errors.Is(err, unix.ENOENT) { // its next message may be anything
		_ = unix.Close(k.netlink)
		k.netlink = 0
	}
	return found, err
}

func openNetlink() (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, err
	}
	limit := unix.NsecToTimeval(int64(time.Second))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return 0, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func exchange(fd int, question []byte) (socket, error) {
	if err := unix.Sendto(fd, question, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return socket{}, fmt.Errorf("ask the kernel whose connection it is: %w", err)
	}
	answer := make([]byte, 2<<10)
	for {
		n, from, err := unix.Recvfrom(fd, answer, 0)
		switch sender, netlink := from.(*unix.SockaddrNetlink); {
		case err == unix.EINTR:
		case err != nil:
			return socket{}, fmt.Errorf("ask the kernel whose connection it is: %w", err)
		case netlink && sender.Pid == 0 && n >= headerSize && bytes.Equal(answer[8:12], question[8:12]):
			// The answer comes from the kernel, and to this question; anybody may write
			// to a netlink socket.
			return readAnswer(answer[:n])
		}
	}
}

var errShort = errors.New("the kernel's answer about a connection is too short")

func readAnswer(b []byte) (socket, error) {
	native := binary.NativeEndian
	if len(b) < headerSize+4 {
		return socket{}, errShort
	}
	kind, body := native.Uint16(b[4:]), b[headerSize:]
	if kind == unix.NLMSG_ERROR {
		if code := int32(native.Uint32(body)); code < 0 {
			return socket{}, unix.Errno(-code)
		}
	}
	if kind != unix.SOCK_DIAG_BY_FAMILY || len(body) < answerSize {
		return socket{}, errShort
	}
	return socket{state: body[1], uid: native.Uint32(body[64:]), inode: native.Uint32(body[68:])}, nil
}
