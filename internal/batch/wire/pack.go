package wire

import (
	"fmt"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// packer compresses frames while that saves time: while the wire takes longer for the
// bytes that compression saves than the compression takes. It measures both. The lock of
// the link's writing guards it.
type packer struct {
	wire, pack mean    // seconds for each byte that is written, and that is compressed
	share      float64 // of the bytes that compression leaves
	frames     int     // since the last one that was compressed
	buf        []byte
}

const (
	// worthPacking is the smallest frame to compress.
	worthPacking = 512
	// tryEvery is how many frames are sent plain before one is compressed to measure it.
	tryEvery = 64
)

// mean is a mean in which recent values count more.
type mean struct{ sum, weight float64 }

func (m *mean) add(value, weight float64) {
	const old = 0.9
	m.sum, m.weight = old*m.sum+value, old*m.weight+weight
}

func (m *mean) value() float64 {
	if m.weight == 0 {
		return 0
	}
	return m.sum / m.weight
}

// saves reports whether compression saves time.
func (p *packer) saves() bool {
	return p.pack.value()+p.share*p.wire.value() < 0.9*p.wire.value()
}

// packed returns a frame compressed, or nil if it is better sent as it is.
func (p *packer) packed(plain []byte, now func() time.Time) []byte {
	if len(plain) < worthPacking {
		return nil
	}
	p.frames++
	saves := p.saves()
	if !saves && p.pack.weight > 0 && p.frames < tryEvery {
		return nil
	}
	p.frames = 0
	began := now()
	e, _ := encoder() // the options are right
	p.buf = e.EncodeAll(plain, p.buf[:0])
	p.pack.add(now().Sub(began).Seconds(), float64(len(plain)))
	share := float64(len(p.buf)) / float64(len(plain))
	p.share += 0.3 * (share - p.share)
	if len(p.buf) >= len(plain) {
		return nil
	}
	return p.buf
}

// wrote counts bytes that were written.
func (p *packer) wrote(n int, took time.Duration) { p.wire.add(took.Seconds(), float64(n)) }

var encoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2), zstd.WithEncoderCRC(false))
})

var decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(frameBytes))
})

// unpack returns a frame as it was before packed.
func unpack(packed []byte) ([]byte, error) {
	d, err := decoder()
	if err != nil {
		return nil, err
	}
	plain, err := d.DecodeAll(packed, buffer(frameBytes)[:0])
	if err != nil {
		return nil, err
	}
	if len(plain) > frameBytes {
		return nil, fmt.Errorf("%d bytes are too many", len(plain))
	}
	return plain, nil
}

// Buffers of whole frames are used again: the garbage collector would have more to do than
// everybody else.
var buffers = sync.Pool{New: func() any { return new([frameBytes]byte) }}

func buffer(n int) []byte {
	if n < frameBytes/2 || n > frameBytes {
		return make([]byte, n)
	}
	return buffers.Get().(*[frameBytes]byte)[:n]
}

func free(b []byte) {
	if cap(b) == frameBytes {
		buffers.Put((*[frameBytes]byte)(b[:frameBytes]))
	}
}
