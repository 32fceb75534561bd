package process

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// ErrNoSocket means that the kernel lists no such connection here.
var ErrNoSocket = errors.New("no such connection")

// SocketOwner is the user whose socket is the other end of a TCP connection
// within this machine. Remote is that end, local ours.
func SocketOwner(local, remote netip.AddrPort) (uid int, err error) {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		uid, err = socketOwner(table, remote, local)
		if !errors.Is(err, ErrNoSocket) {
			return uid, err
		}
	}
	return 0, err
}

// socketOwner looks a connection up as the kernel lists it: from one end to
// the other, in hexadecimal.
func socketOwner(table string, from, to netip.AddrPort) (int, error) {
	file, err := os.Open(table)
	if err != nil {
		return 0, fmt.Errorf("find the owner of a connection: %w", err)
	}
	defer file.Close()
	six := strings.HasSuffix(table, "6")
	ours, theirs := kernelAddress(from, six), kernelAddress(to, six)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 7 && fields[1] == ours && fields[2] == theirs {
			return strconv.Atoi(fields[7])
		}
	}
	return 0, errors.Join(lines.Err(), ErrNoSocket)
}

// kernelAddress writes an address as /proc/net/tcp does: words of 32 bits in
// the order of this machine's bytes.
func kernelAddress(a netip.AddrPort, six bool) string {
	address := a.Addr().Unmap()
	bytes := address.AsSlice()
	if six {
		whole := address.As16()
		bytes = whole[:]
	}
	for word := range slices.Chunk(bytes, 4) {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	return fmt.Sprintf("%s:%04X", strings.ToUpper(hex.EncodeToString(bytes)), a.Port())
}
