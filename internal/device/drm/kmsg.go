package drm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Message is one entry of the kernel's log.
type Message struct {
	Text string
	PCI  string // the address of the device that the message is about; empty if no driver gave one
}

// Follow calls heard for every message that the kernel writes to its log from now on,
// until ctx ends, and then returns nil.
func Follow(ctx context.Context, path string, heard func(Message)) error {
	log, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	_, _ = log.Seek(0, io.SeekEnd) // what was written before was about an earlier time
	if ctx.Err() != nil {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { _ = log.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	const longest = 8192 // of one entry, as the kernel has it
	space := make([]byte, longest)
	for {
		n, err := log.Read(space)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EINVAL):
			continue // entries were overwritten before they were read, or one is too long
		case err != nil:
			return fmt.Errorf("read the kernel's log: %w", err)
		}
		for _, m := range ParseMessages(string(space[:n])) {
			heard(m)
		}
	}
}

// ParseMessages reads entries of the kernel's log. The first line of an entry is
// "PRIORITY,NUMBER,TIME,FLAGS;TEXT"; lines that follow begin with a space and say more,
// such as " DEVICE=+pci:0000:03:00.0". Only such a line determines the device: texts hold
// names of programs and files, which users choose.
func ParseMessages(text string) []Message {
	var all []Message
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if more, is := strings.CutPrefix(line, " "); is {
			if address, is := strings.CutPrefix(more, "DEVICE=+pci:"); is && len(all) > 0 && isAddress(address) {
				all[len(all)-1].PCI = address
			}
			continue
		}
		_, said, ok := strings.Cut(line, ";")
		if !ok {
			continue
		}
		all = append(all, Message{Text: said})
	}
	return all
}
