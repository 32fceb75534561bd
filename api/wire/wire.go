// Package wire defines the format of the lease stream: requests and answers as frames
// on a connection that began as HTTP, and the JSON in them.
//
// Taking a lease this way costs a fraction of what HTTP costs, and several calls can be
// under way at once. docs/reference/lease-protocol.md specifies it byte for byte.
//
// Pure: no clock, no I/O.
package wire

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

// A client asks for a stream with POST to Path and Upgrade: Protocol.
const (
	Protocol = "berth-lease/1"
	Path     = "/api/leases/stream"
)

// Kind is the kind of a frame.
type Kind byte

// The kinds that a client sends.
const (
	Acquire Kind = 1 // body: api.LeaseRequest
	Release Kind = 2 // body: api.Release
	Renew   Kind = 3 // body: api.Renewal
	Cancel  Kind = 4 // no body; stop waiting for the call with this number
)

// The kinds that the daemon answers with, under the number of the call.
const (
	Done    Kind = 0x81 // body: api.Lease, or api.Ended for a release
	Refused Kind = 0x82 // body: api.Problem
)

// Limits on the body of a frame.
const (
	MaxRequest = 64 << 10 // a request is a few hundred bytes
	MaxAnswer  = 16 << 20 // a refusal names every device, and there may be many
)

const (
	lengthSize = 4
	headSize   = 5 // kind and number, which the length counts beside the body

	// Overhead is the size of a frame without its body.
	Overhead = lengthSize + headSize
)

// Body is the body of a frame. Append appends it to dst as JSON.
type Body interface{ Append(dst []byte) []byte }

// Append appends a frame to dst. A nil body is empty.
func Append(dst []byte, kind Kind, number uint32, body Body) []byte {
	begin := len(dst)
	dst = append(dst, 0, 0, 0, 0, byte(kind)) // the length is filled in after the body
	dst = binary.BigEndian.AppendUint32(dst, number)
	if body != nil {
		dst = body.Append(dst)
	}
	binary.BigEndian.PutUint32(dst[begin:], uint32(len(dst)-begin-lengthSize))
	return dst
}

// Frame is one message that was read. A call and its answer have the same number, which
// the client chooses. Number 0 is for messages about the whole connection.
type Frame struct {
	Kind   Kind
	Number uint32
	Body   []byte // may be empty
}

// SizeError is the error for a frame of an invalid size. Nothing after the frame can be
// read, because nobody knows where the next one begins.
type SizeError struct {
	Length uint32 // as given in the frame
	Most   int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("read a frame: its length is %d, and must be from %d to %d", e.Length, headSize, e.Most)
}

// Reader reads frames.
type Reader struct {
	in   *bufio.Reader
	most int // largest body in bytes

	frame   Frame // the part that was read so far
	missing int   // bytes of its body that have not arrived
	begun   bool  // its head was read
	body    []byte
}

// NewReader returns a Reader of frames with bodies of up to most bytes.
func NewReader(in *bufio.Reader, most int) *Reader { return &Reader{in: in, most: most} }

// Next reads a frame, whose body is valid until the next call. At the end of the stream
// the error is io.EOF, in the middle of a frame io.ErrUnexpectedEOF. After a temporary
// error, such as a deadline, the next call goes on where this one stopped.
func (r *Reader) Next() (Frame, error) {
	if !r.begun {
		if err := r.head(); err != nil {
			return Frame{}, err
		}
	}
	if err := r.read(); err != nil {
		return Frame{}, err
	}
	r.begun = false
	r.frame.Body = r.body
	return r.frame, nil
}

// head reads a frame up to its body.
func (r *Reader) head() error {
	head, err := r.in.Peek(lengthSize)
	if err != nil {
		return cutOff(err, len(head) > 0)
	}
	length := binary.BigEndian.Uint32(head)
	if length < headSize || int64(length) > int64(headSize+r.most) {
		return &SizeError{length, headSize + r.most}
	}
	if head, err = r.in.Peek(Overhead); err != nil {
		return cutOff(err, true)
	}
	r.frame = Frame{Kind: Kind(head[lengthSize]), Number: binary.BigEndian.Uint32(head[lengthSize+1:])}
	_, _ = r.in.Discard(len(head)) // cannot fail: the bytes were peeked at
	r.missing, r.begun = int(length)-headSize, true
	if cap(r.body) > bodyStep {
		r.body = nil // do not keep the memory of one large body for ever
	}
	r.body = r.body[:0]
	return nil
}

// More reports whether another frame, or part of one, has already arrived.
func (r *Reader) More() bool { return r.in.Buffered() > 0 }

// cutOff distinguishes an end in the middle of a frame from an end between frames.
func cutOff(err error, middle bool) error {
	if err == io.EOF && middle {
		return io.ErrUnexpectedEOF
	}
	return err
}

// bodyStep is how much memory the reader allocates for a body at a time: as the body
// arrives, not because a length says so.
const bodyStep = 64 << 10

// read reads a body into memory that is reused.
func (r *Reader) read() error {
	for r.missing > 0 {
		from := len(r.body)
		r.body = append(r.body, make([]byte, min(r.missing, bodyStep))...)
		n, err := io.ReadFull(r.in, r.body[from:])
		r.missing -= n
		r.body = r.body[:from+n]
		if err != nil {
			return cutOff(err, true)
		}
	}
	return nil
}
