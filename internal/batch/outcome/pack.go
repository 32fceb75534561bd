package outcome

import (
	"bytes"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// packer compresses groups of outcomes one by one. Both formats allow
// compressed groups end to end, so a file can be cut after any group.
type packer interface {
	// member returns data compressed by itself, valid until the next call.
	member(data []byte) ([]byte, error)
}

// newPacker returns a packer, or nil if p is None.
func newPacker(p Packing) packer {
	switch p {
	case Gzip:
		return &gzipPacker{w: gzip.NewWriter(nil)}
	case Zstd:
		return &zstdPacker{}
	}
	return nil
}

type gzipPacker struct {
	w   *gzip.Writer
	out bytes.Buffer
}

func (p *gzipPacker) member(data []byte) ([]byte, error) {
	p.out.Reset()
	p.w.Reset(&p.out)
	if _, err := p.w.Write(data); err != nil {
		return nil, err
	}
	err := p.w.Close()
	return p.out.Bytes(), err
}

type zstdPacker struct {
	w   *zstd.Encoder
	out []byte
}

func (p *zstdPacker) member(data []byte) ([]byte, error) {
	if p.w == nil {
		var err error
		if p.w, err = zstd.NewWriter(nil, zstdOptions()...); err != nil {
			return nil, err
		}
	}
	p.out = p.w.EncodeAll(data, p.out[:0])
	return p.out, nil
}

// zstdOptions keeps memory use flat.
func zstdOptions() []zstd.EOption {
	return []zstd.EOption{zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1 << 20), zstd.WithLowerEncoderMem(true)}
}

// newStream returns a writer that compresses everything into one stream.
func newStream(p Packing, to io.Writer) (io.WriteCloser, error) {
	switch p {
	case Gzip:
		return gzip.NewWriter(to), nil
	case Zstd:
		return zstd.NewWriter(to, zstdOptions()...)
	}
	return plainStream{to}, nil
}

type plainStream struct{ io.Writer }

func (plainStream) Close() error { return nil }
