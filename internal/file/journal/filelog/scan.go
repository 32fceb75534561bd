package filelog

import (
	"fmt"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
)

// scanner walks over the packets of a segment.
type scanner struct {
	name    string
	data    []byte
	off     int
	next    uint64      // the number that the next entry must have
	durable uint64      // number of the last entry that a packet or the header says is on disk
	boot    file.BootID // the boot that wrote from here on
}

// scan reads the next packet. ok is false at the end of the sound packets, for any
// reason: judge finds out which.
func (s *scanner) scan() (f packet, ok bool, err error) {
	f, err = parsePacket(s.data[s.off:])
	switch {
	case err == errNonsense:
		return packet{}, false, s.corrupt(err.Error())
	case err != nil:
		return packet{}, false, nil
	case f.kind == kindEnd || f.seq != s.next || f.durable >= s.next:
		return packet{}, false, s.corrupt(fmt.Sprintf("a packet stands there that belongs elsewhere (it has number %d)", f.seq))
	}
	if f.kind == kindMark {
		s.boot = file.BootID(f.payload)
	}
	s.off += f.size
	s.next += uint64(f.count)
	s.durable = max(s.durable, f.durable)
	return f, true, nil
}

// judge decides what follows the sound packets of the last segment. Zeros are room that
// was allocated ahead. Anything else is a write that a crash cut off, and may be removed,
// unless there is proof that its entry was complete:
//
//   - A sound packet further on that was written when this entry was already
//     on disk. Every packet says which entries were on disk at its time.
//   - Any sound packet further on, if the machine has not been restarted since.
//     Without a power loss writes are seen in the order they were made, so only
//     the very last can be cut off. (A power loss may keep the later of two
//     writes that nobody had waited for, and lose the earlier.)
func (s *scanner) judge(now file.BootID) error {
	if allZero(s.data[s.off:]) {
		return nil
	}
	sameBoot := s.boot == now && now != file.BootID{}
	for off := s.off + packetAlign; ; {
		f, at, found := findPacket(s.data, off)
		if !found {
			return nil
		}
		if f.durable >= s.next {
			return s.corrupt(fmt.Sprintf("checksum does not match, and a later packet, at byte %d, says that it was safely on disk", at))
		}
		if sameBoot && f.seq >= s.next {
			return s.corrupt(fmt.Sprintf("checksum does not match, and what was written after it, at byte %d, is intact", at))
		}
		off = at + f.size
	}
}

// ending describes the end of the segment, once all its packets are read.
func (s *scanner) ending() ending {
	dirty := len(s.data)
	for dirty > s.off && s.data[dirty-1] == 0 {
		dirty--
	}
	proven := fileHeader
	for proven < s.off {
		f, err := parsePacket(s.data[proven:])
		if err != nil || f.provenBy() > s.durable {
			break
		}
		proven += f.size
	}
	return ending{
		end: s.off, size: len(s.data), dirty: dirty,
		next: s.next, durable: s.durable, boot: s.boot,
		unproven: s.data[proven:s.off],
	}
}

func (s *scanner) corrupt(reason string) error {
	return &journal.CorruptError{File: s.name, Offset: int64(s.off), Seq: s.next, Reason: reason}
}
