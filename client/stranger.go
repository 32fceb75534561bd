package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// StrangerError reports that somebody else than the daemon listens on a socket. Nothing was
// sent there.
type StrangerError struct {
	Socket string
	UID    int // who listens
}

func (e *StrangerError) Error() string {
	return fmt.Sprintf("user %d listens on %s, who is not to be trusted with what this user asks of a daemon", e.UID, e.Socket)
}

// Hint returns the next step, in one sentence.
func (*StrangerError) Hint() string {
	return "let the daemon have its socket in a folder that only its user can write to, such as /run/berth; or ask that user's daemon as that user"
}

// dialSocket connects to the first socket with a daemon behind it that this process trusts.
// The credentials are those of the connection, so the one who was looked at is the one who
// answers.
func (o Options) dialSocket(ctx context.Context, paths []string) (net.Conn, error) {
	conn, err := dialFirst(ctx, "unix", paths)
	if err != nil {
		return nil, err
	}
	if err := o.trust(conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// trust returns nil if the process at the other end of a connection may be the daemon.
func (o Options) trust(conn net.Conn) error {
	only, given := o.PeerUID.Get()
	if !given && os.Geteuid() != 0 {
		return nil
	}
	socket, path := conn.(*net.UnixConn), conn.RemoteAddr().String()
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var peer *syscall.Ucred
	var unknown error
	if err := raw.Control(func(fd uintptr) {
		peer, unknown = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil || unknown != nil {
		return fmt.Errorf("ask the kernel who listens on %s: %w", path, errors.Join(err, unknown))
	}
	uid := int(peer.Uid)
	inFolder := !strings.HasPrefix(path, "@") // else it is in no folder, and anybody may take the name
	if given && uid == only || !given && (uid == 0 || inFolder && uid == ownerOf(filepath.Dir(path))) {
		return nil
	}
	return &StrangerError{Socket: path, UID: uid}
}

// ownerOf returns the user whose folder it is, or -1 if nobody knows.
func ownerOf(folder string) int {
	info, err := os.Stat(folder)
	if err != nil {
		return -1
	}
	if about, is := info.Sys().(*syscall.Stat_t); is {
		return int(about.Uid)
	}
	return -1
}
