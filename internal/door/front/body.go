package front

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/internal/door/front/dialect"
	"github.com/berth-gpu/berth/internal/door/front/route"
)

const (
	// memoryLimit is how much of a body is kept in memory while berth looks for its model.
	// What is longer goes to the disk.
	memoryLimit = 64 << 10
	// jsonLimit is how far berth looks for the model in a JSON object.
	jsonLimit = 8 << 20
	// bodyPatience is how long a caller may take for the first byte of a body, and how far
	// it may fall behind bodyRate.
	bodyPatience = 30 * time.Second
	// bodyRate is the least that a caller must send, in bytes a second: an open request
	// keeps its service on the GPU.
	bodyRate = 16 << 10
)

// spool limits how much of bodies is on the disk.
type spool struct {
	folder string
	one    int64 // of one request
	all    int64 // of all requests; one user may have half of it

	mu     sync.Mutex // guards what follows
	used   int64
	byUser map[string]int64
}

var errFull = errors.New("the front has no room for this body")

// grow takes room for more bytes of a user.
func (s *spool) grow(user string, more int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+more > s.all || s.byUser[user]+more > s.all/2 {
		return errFull
	}
	s.used += more
	s.byUser[user] += more
	return nil
}

// shrink gives room back.
func (s *spool) shrink(user string, less int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= less
	if s.byUser[user] -= less; s.byUser[user] == 0 {
		delete(s.byUser, user)
	}
}

// held keeps the beginning of a body, or all of it, in memory and then in a file without a
// name.
type held struct {
	room   *spool // in memory
	spool  *spool
	pieces *buffers
	user   string
	limit  int64

	mu     sync.Mutex // guards what follows
	memory []byte
	file   *os.File
	onDisk int64
}

var errTooLong = errors.New("the body is too long")

// Write keeps the next piece, or nothing of it.
func (h *held) Write(piece []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	more := int64(len(piece))
	if int64(len(h.memory))+h.onDisk+more > h.limit {
		return 0, errTooLong
	}
	if h.file == nil && len(h.memory)+len(piece) <= memoryLimit && h.room.grow(h.user, more) == nil {
		h.memory = append(h.memory, piece...)
		return len(piece), nil
	}
	if h.file == nil {
		f, err := os.CreateTemp(h.spool.folder, "berth-front-")
		if err != nil {
			return 0, err
		}
		h.file = f
		if err := os.Remove(f.Name()); err != nil {
			return 0, err
		}
	}
	if err := h.spool.grow(h.user, more); err != nil {
		return 0, err
	}
	if _, err := h.file.WriteAt(piece, h.onDisk); err != nil {
		h.spool.shrink(h.user, more)
		return 0, err
	}
	h.onDisk += more
	return len(piece), nil
}

// readAt reads what is held from a place on, as far as it can; it returns 0 at the end.
func (h *held) readAt(b []byte, from int64) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if from < int64(len(h.memory)) {
		return copy(b, h.memory[from:])
	}
	from -= int64(len(h.memory))
	if from >= h.onDisk {
		return 0
	}
	n, _ := h.file.ReadAt(b[:min(int64(len(b)), h.onDisk-from)], from)
	return n
}

// close gives the room back.
func (h *held) close() {
	h.room.shrink(h.user, int64(len(h.memory)))
	if h.file != nil {
		_ = h.file.Close()
		h.spool.shrink(h.user, h.onDisk)
	}
}

// findModel reads a body until it has found the name of the model.
func (h *held) findModel(body io.Reader, way route.Way) (string, *route.Refusal) {
	var name string
	var err error
	if way.Find == route.InForm {
		name, err = h.inForm(body, way.Boundary)
	} else {
		name, err = h.inJSON(body)
	}
	switch {
	case err == nil && name != "":
		return name, nil
	case errors.Is(err, errTooLong):
		return "", refusal(http.StatusRequestEntityTooLarge, "too_large", "The model does not stand in the first %d MiB of the body. Name the service in the path, as in /services/NAME%s, or in the header %s.", h.limit>>20, way.Path, route.Header)
	case err != nil:
		return "", badBody(err)
	}
	return "", refusal(http.StatusBadRequest, "no_model", "The request names no model. Put model into its body, or name the service in the path, as in /services/NAME%s. /v1/models lists the models.", way.Path)
}

// badBody says why a body was not read.
func badBody(err error) *route.Refusal {
	disk := (*fs.PathError)(nil)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refusal(http.StatusRequestTimeout, "slow_body", "The body of the request came too slowly.")
	case errors.Is(err, errFull) || errors.As(err, &disk): // the caller need not know where the front keeps what
		return retry(refusal(http.StatusServiceUnavailable, "no_room", "The front has no room to keep large requests at the moment. Try again, or name the service in the path, as in /services/NAME: then it keeps none to find the model."), 5)
	}
	return refusal(http.StatusBadRequest, "bad_body", "The body of the request cannot be read: %v.", err)
}

// inJSON looks for the model in a JSON object.
func (h *held) inJSON(body io.Reader) (string, error) {
	var finder dialect.Finder
	buffer := h.pieces.Get()
	defer h.pieces.Put(buffer)
	for !finder.Done() {
		n, err := body.Read(buffer)
		if _, err := h.Write(buffer[:n]); err != nil {
			return "", err
		}
		_, _ = finder.Write(buffer[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", err
		}
	}
	name, _ := finder.Name()
	return name, nil
}

// inForm looks for the model in a form. Its fields come in any order, so a file may
// precede it.
func (h *held) inForm(body io.Reader, boundary string) (string, error) {
	fields := multipart.NewReader(io.TeeReader(body, h), boundary)
	for {
		field, err := fields.NextRawPart()
		if err == io.EOF {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if field.FormName() != "model" || field.FileName() != "" {
			continue
		}
		name, err := io.ReadAll(io.LimitReader(field, dialect.LongestName+1))
		if err != nil || len(name) > dialect.LongestName {
			return "", err
		}
		return string(name), nil
	}
}

// passing is the body of a request on its way to a server: what is held, and then the
// rest from the caller. While the request waits for its service, the front reads on, so
// that a caller who has sent all need not be in time any more, and one who leaves is
// noticed: the door sees that only after the end of the body.
type passing struct {
	kept  *held
	rest  *paced
	whole bool          // it is in memory
	sent  chan struct{} // is closed when nobody sends it any more; nil if nobody began
	cut   atomic.Bool   // the caller did not send all of it
	next  int64         // how much of it the server got, of what is held

	gathered chan struct{} // is closed when the front does not read on any more; nil if it never did
	enough   atomic.Bool   // it shall read on no more
	piece    []byte        // the last that it read, if there was no room to hold it
	err      error         // why the caller sends no more; valid, as piece, after gathered is closed
}

// gather begins to read on, if nobody has, and holds what there is room for.
func (p *passing) gather() {
	if p.whole || p.gathered != nil {
		return
	}
	p.gathered = make(chan struct{})
	go func() {
		defer close(p.gathered)
		buffer := p.kept.pieces.Get()
		defer p.kept.pieces.Put(buffer)
		for !p.enough.Load() && p.err == nil && p.piece == nil {
			var n int
			n, p.err = p.rest.Read(buffer)
			if _, err := p.kept.Write(buffer[:n]); err != nil {
				p.piece = slices.Clone(buffer[:n])
			}
		}
	}()
}

// broken returns why the caller sent no more, if that was before the end, and while the
// front read on.
func (p *passing) broken() error {
	select {
	case <-p.gathered: // never if it is nil
		if p.err != nil && p.err != io.EOF {
			return p.err
		}
	default:
	}
	return nil
}

func (p *passing) Read(b []byte) (int, error) {
	p.enough.Store(true)
	n := p.kept.readAt(b, p.next)
	if n == 0 && p.gathered != nil {
		<-p.gathered
		if n = p.kept.readAt(b, p.next); n == 0 && len(p.piece) > 0 {
			n = copy(b, p.piece)
			p.piece = p.piece[n:]
			return n, nil
		}
	}
	if n > 0 {
		p.next += int64(n)
		return n, nil
	}
	if p.whole {
		return 0, io.EOF
	}
	n, err := p.rest.Read(b) // also if gather came to its end: it says the same again
	if err != nil && err != io.EOF {
		p.cut.Store(true)
	}
	return n, err
}

// Close does nothing: the door closes the body of the caller.
func (*passing) Close() error { return nil }

// lastPiece is how long a caller may take for what it is sending, when its request was
// refused.
const lastPiece = time.Second

// wait returns when nobody reads the body any more.
func (p *passing) wait() {
	p.enough.Store(true)
	patience := lastPiece
	if p.sent != nil {
		patience = 0
	}
	for _, done := range []chan struct{}{p.gathered, p.sent} {
		if done == nil {
			continue
		}
		select {
		case <-done:
		default:
			p.rest.hurry(patience)
			<-done
		}
	}
}

// paced is the body of a caller, who must send it at bodyRate at least. What counts is how
// long the front waits for the caller, and not how long the caller waits for a service.
type paced struct {
	body     io.Reader
	door     *http.ResponseController
	patience time.Duration
	waited   time.Duration // for the caller
	read     int64
	until    time.Time // reads may take so long
	err      error

	mu      sync.Mutex // guards what follows
	hurried bool
}

// newPaced returns the body of a request. The limit of time counts from now on, also if
// the body is refused and the door reads it to throw it away.
func newPaced(w http.ResponseWriter, r *http.Request, patience time.Duration) *paced {
	p := &paced{body: r.Body, door: http.NewResponseController(w), patience: patience}
	if r.ContentLength == 0 {
		p.err = io.EOF
		return p
	}
	p.err = p.allow(time.Now())
	return p
}

// allow sets until when a read that begins now may take.
func (p *paced) allow(now time.Time) error {
	until := now.Add(p.patience + time.Duration(p.read/bodyRate)*time.Second - p.waited)
	if left := until.Sub(p.until); left > -time.Millisecond && left < time.Second {
		return nil
	}
	p.until = until
	return p.limit(until)
}

// Read reads what the caller sends. After the end it lifts the limit: the door goes on
// reading to learn when the caller leaves.
func (p *paced) Read(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	begun := time.Now()
	if p.err = p.allow(begun); p.err != nil {
		return 0, p.err
	}
	n, err := p.body.Read(b)
	p.read += int64(n)
	p.waited += time.Since(begun)
	if err == io.EOF {
		err = cmp.Or(p.limit(time.Time{}), err)
	}
	p.err = err
	return n, err
}

// limit sets until when reads may take, unless there is a hurry.
func (p *paced) limit(until time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hurried {
		return nil
	}
	if err := p.door.SetReadDeadline(until); err != nil {
		return fmt.Errorf("limit the time for the body: %w", err)
	}
	return nil
}

// hurry makes the reads fail that are under way after a time, and those that follow. The
// caller's connection is of no use after that.
func (p *paced) hurry(after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hurried = true
	_ = p.door.SetReadDeadline(time.Now().Add(after))
}

// pieceSize is how much of a body is read at a time.
const pieceSize = 16 << 10

// buffers keeps buffers for bodies.
type buffers struct{ pool sync.Pool }

// Get returns a buffer.
func (b *buffers) Get() []byte {
	if piece, ok := b.pool.Get().(*[pieceSize]byte); ok {
		return piece[:]
	}
	return make([]byte, pieceSize)
}

// Put takes a buffer back.
func (b *buffers) Put(piece []byte) { b.pool.Put((*[pieceSize]byte)(piece)) }
