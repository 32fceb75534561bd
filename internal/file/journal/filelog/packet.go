package filelog

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/berth-gpu/berth/internal/file"
)

// docs/reference/journal.md specifies the bytes; all numbers are little-endian.
const (
	packetMagic  = 0x6d726662 // "bfrm"
	packetHeader = 32
	packetAlign  = 8
	maxPayload   = 16 << 20
)

type packetKind byte

const (
	kindEntries packetKind = 1
	kindMark    packetKind = 2 // no entries; says what is on disk, and which boot writes from here on
	kindEnd     packetKind = 3 // the last packet of a snapshot
)

// packet is one write to the journal. Its group of entries is there as a whole or not at
// all, because one checksum covers it.
type packet struct {
	kind    packetKind
	seq     uint64 // number of the first entry; in a mark, of the next entry; in a snapshot, of the snapshot
	durable uint64 // every entry up to this one was on disk when the packet was written; in an end, the number of entries
	payload []byte
	size    int // bytes in the file, padding included
	count   int // entries
}

// last returns the number of the last entry in a packet of entries.
func (f packet) last() uint64 { return f.seq + uint64(f.count) - 1 }

// provenBy returns the entry whose presence on disk proves that this packet is on disk.
// A mark has no entry of its own: only an entry that was written after it proves it.
func (f packet) provenBy() uint64 {
	if f.kind == kindMark {
		return f.seq
	}
	return f.last()
}

var (
	// errIncomplete describes the end of a log, a write that was cut off, or a flipped
	// bit.
	errIncomplete = errors.New("checksum does not match")
	// errNonsense is not a cut-off write, because its checksum is right.
	errNonsense = errors.New("checksum holds over a packet that makes no sense")
)

func payloadSize(group [][]byte) int {
	n := 0
	for _, r := range group {
		n += 4 + len(r)
	}
	return n
}

func packetSize(payload int) int {
	return (packetHeader + payload + packetAlign - 1) &^ (packetAlign - 1)
}

// appendPacket appends a packet of entries to b.
func appendPacket(b []byte, kind packetKind, seq, durable uint64, group [][]byte) []byte {
	start := len(b)
	b = append(b, make([]byte, packetHeader)...)
	for _, r := range group {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(r)))
		b = append(b, r...)
	}
	return finishPacket(b, start, kind, seq, durable)
}

// appendMark appends a mark to b. seq is the number of the next entry.
func appendMark(b []byte, seq, durable uint64, boot file.BootID) []byte {
	start := len(b)
	b = append(b, make([]byte, packetHeader)...)
	b = append(b, boot[:]...)
	return finishPacket(b, start, kindMark, seq, durable)
}

func finishPacket(b []byte, start int, kind packetKind, seq, durable uint64) []byte {
	h := b[start:]
	binary.LittleEndian.PutUint32(h[0:], packetMagic)
	binary.LittleEndian.PutUint32(h[8:], uint32(len(h)-packetHeader))
	h[12] = byte(kind)
	binary.LittleEndian.PutUint64(h[16:], seq)
	binary.LittleEndian.PutUint64(h[24:], durable)
	binary.LittleEndian.PutUint32(h[4:], checksum(h[8:]))
	return append(b, make([]byte, packetSize(len(h)-packetHeader)-len(h))...)
}

// parsePacket reads the packet at the beginning of b. The payload aliases b.
func parsePacket(b []byte) (packet, error) {
	if len(b) < packetHeader || binary.LittleEndian.Uint32(b) != packetMagic {
		return packet{}, errIncomplete
	}
	length := int(binary.LittleEndian.Uint32(b[8:]))
	if length > maxPayload || packetSize(length) > len(b) {
		return packet{}, errIncomplete
	}
	if checksum(b[8:packetHeader+length]) != binary.LittleEndian.Uint32(b[4:]) {
		return packet{}, errIncomplete
	}
	f := packet{
		kind:    packetKind(b[12]),
		seq:     binary.LittleEndian.Uint64(b[16:]),
		durable: binary.LittleEndian.Uint64(b[24:]),
		payload: b[packetHeader : packetHeader+length],
		size:    packetSize(length),
	}
	if !allZero(b[13:16]) || !f.sensible() {
		return packet{}, errNonsense
	}
	if !allZero(b[packetHeader+length : f.size]) {
		return packet{}, errIncomplete
	}
	return f, nil
}

// sensible checks that the payload suits the kind, and counts the entries.
func (f *packet) sensible() bool {
	switch f.kind {
	case kindMark:
		return len(f.payload) == len(file.BootID{})
	case kindEnd:
		return len(f.payload) == 0
	case kindEntries:
		for rest := f.payload; len(rest) > 0; f.count++ {
			if len(rest) < 4 {
				return false
			}
			n := int(binary.LittleEndian.Uint32(rest))
			if n > len(rest)-4 {
				return false
			}
			rest = rest[4+n:]
		}
		return f.count > 0
	}
	return false
}

// each calls do for each entry of a packet that parsePacket accepted.
func (f packet) each(do func(i int, data []byte) error) error {
	rest := f.payload
	for i := range f.count {
		n := int(binary.LittleEndian.Uint32(rest))
		if err := do(i, rest[4:4+n:4+n]); err != nil {
			return err
		}
		rest = rest[4+n:]
	}
	return nil
}

// findPacket returns the next sound packet in b at or after off.
func findPacket(b []byte, off int) (packet, int, bool) {
	for off = (off + packetAlign - 1) &^ (packetAlign - 1); off+packetHeader <= len(b); off += packetAlign {
		if f, err := parsePacket(b[off:]); err == nil {
			return f, off, true
		}
	}
	return packet{}, 0, false
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func allZero(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if binary.LittleEndian.Uint64(b) != 0 {
			return false
		}
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
