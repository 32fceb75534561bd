package front

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
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
	spool  *spool
	pieces *buffers
	user   string
	limit  int64
	memory []byte
	file   *os.File
	onDisk int64
}

var errTooLong = errors.New("the body is too long")

// Write keeps the next piece.
func (h *held) Write(piece []byte) (int, error) {
	if int64(len(h.memory))+h.onDisk+int64(len(piece)) > h.limit {
		return 0, errTooLong
	}
	if h.file == nil && len(h.memory)+len(piece) <= memoryLimit {
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
	if err := h.spool.grow(h.user, int64(len(piece))); err != nil {
		return 0, err
	}
	h.onDisk += int64(len(piece))
	return h.file.Write(piece)
}

// reader returns what is held, from the beginning.
func (h *held) reader() io.Reader {
	memory := bytes.NewReader(h.memory)
	if h.file == nil {
		return memory
	}
	return io.MultiReader(memory, io.NewSectionReader(h.file, 0, h.onDisk))
}

// close gives the room back.
func (h *held) close() {
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
	case errors.Is(err, errFull):
		return "", retry(refusal(http.StatusServiceUnavailable, "no_room", "The front keeps too many large requests at the moment. Try again, or name the service in the path, as in /services/NAME%s: then it keeps none.", way.Path), 5)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "", refusal(http.StatusRequestTimeout, "slow_body", "The body of the request came too slowly.")
	case err != nil:
		return "", refusal(http.StatusBadRequest, "bad_body", "The body of the request cannot be read: %v.", err)
	}
	return "", refusal(http.StatusBadRequest, "no_model", "The request names no model. Put model into its body, or name the service in the path, as in /services/NAME%s. /v1/models lists the models.", way.Path)
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
// rest from the caller.
type passing struct {
	io.Reader
	rest  *paced
	whole bool          // it is in memory
	sent  chan struct{} // is closed when nobody sends it any more; nil if nobody began
	cut   atomic.Bool   // the caller did not send all of it
}

// Close does nothing: the door closes the body of the caller.
func (*passing) Close() error { return nil }

// wait returns when nobody reads the body any more.
func (p *passing) wait() {
	if p.sent == nil {
		return
	}
	select {
	case <-p.sent:
	default:
		p.rest.hurry()
		<-p.sent
	}
}

// paced is the body of a caller, who must send it at bodyRate at least.
type paced struct {
	body     io.Reader
	door     *http.ResponseController
	patience time.Duration
	begun    time.Time
	read     int64
	err      error

	mu      sync.Mutex // guards what follows
	hurried bool
}

// newPaced returns the body of a request. The limit of time counts from now on, also if
// the body is refused and the door reads it to throw it away.
func newPaced(w http.ResponseWriter, r *http.Request, patience time.Duration) *paced {
	p := &paced{body: r.Body, door: http.NewResponseController(w), patience: patience, begun: time.Now()}
	if r.ContentLength == 0 {
		p.err = io.EOF
		return p
	}
	p.err = p.limit(p.begun.Add(patience))
	return p
}

// Read reads what the caller sends. After the end it lifts the limit: the door goes on
// reading to learn when the caller leaves.
func (p *paced) Read(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.body.Read(b)
	before := p.read / bodyRate
	p.read += int64(n)
	switch {
	case err == io.EOF:
		err = cmp.Or(p.limit(time.Time{}), err)
	case err == nil && p.read/bodyRate > before:
		err = p.limit(p.begun.Add(p.patience + time.Duration(p.read/bodyRate)*time.Second))
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

// hurry makes the reads fail that are under way and that follow. The caller's connection
// is of no use after that.
func (p *paced) hurry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hurried = true
	_ = p.door.SetReadDeadline(time.Unix(1, 0))
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
