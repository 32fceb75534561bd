package minder

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/berth-gpu/berth/internal/file/tail"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/runs"
)

// Reading says what to read of a log.
type Reading struct {
	User string `json:"user"` // whose rights the reader has
	UID  int    `json:"uid"`
	Path string `json:"path"`

	Lines  int   `json:"lines,omitempty"`  // only the last lines; 0 means all
	Offset int64 `json:"offset,omitempty"` // leave out what is before
	Most   int64 `json:"most,omitempty"`   // at most so many bytes from the end, and from Offset; 0 means mostLog
	Follow bool  `json:"follow,omitempty"` // go on with what is written later
}

const (
	// mostLog limits what is read at once of a log, in bytes. What comes while it is
	// followed does not count.
	mostLog = 64 << 20

	// mostReading limits how many logs are read at a time for a user.
	mostReading = 16

	// readingsPerSecond limits how many readers are started in a second for a user, after
	// the first mostReading. Where systemd starts them, each costs it a unit, and minders
	// of all users wait for it.
	readingsPerSecond = 10

	// readerEndsWithin is how long a reader may take to end when nobody listens any more.
	readerEndsWithin = time.Second

	// mostPath limits the line that asks a reader, in bytes.
	mostPath = 64 << 10

	// lookAgain is how often a followed log is looked at where the kernel does not tell of
	// changes, as on some network file systems. In milliseconds.
	lookAgain = 1000
)

// heading is the first line that a reader writes.
type heading struct {
	Offset  int64  `json:"offset"`            // where what follows begins
	Error   string `json:"error,omitempty"`   // why nothing follows
	Missing bool   `json:"missing,omitempty"` // because there is no such file
}

// ReadLog writes a log to w as a user reads it: a process with the rights of that user
// opens and reads the file. It returns when the log, or the part of it that was asked for,
// has been read; for one that is followed, when until is closed and the rest has been
// read, or when w fails. It returns an error that wraps fs.ErrNotExist if there is no such
// file. A file system that hangs delays only the reader.
//
// Begin is called with the offset of the first byte before anything is written, unless it
// is nil.
func (s *Starter) ReadLog(ctx context.Context, r Reading, until <-chan struct{}, begin func(offset int64), w io.Writer) error {
	if err := s.enterReading(r.UID); err != nil {
		return err
	}
	leave := func() { s.leaveReading(r.UID) }
	defer func() { leave() }()
	if err := s.pace(r.UID).Wait(ctx); err != nil {
		return cause(ctx, err)
	}
	request, err := json.Marshal(r)
	if err != nil {
		return err
	}
	ask, tell, reader, err := s.startReader(ctx)
	if err != nil {
		return err
	}
	leave = func() { s.endReader(reader, r.UID) }
	defer tell.Close()
	defer ask.Close()
	// The reader ends when its standard input ends. If this call has to end first, closing
	// the pipes makes everything that waits for them return. The answer is closed first:
	// otherwise its end could look like that of the log.
	defer context.AfterFunc(ctx, func() { _, _ = tell.Close(), ask.Close() })()
	if _, err := ask.Write(append(request, '\n')); err != nil {
		return fmt.Errorf("ask the reader of the log: %w", cause(ctx, err))
	}
	if r.Follow {
		over := make(chan struct{})
		defer close(over)
		go func() {
			select {
			case <-until:
				_ = ask.Close()
			case <-over:
			}
		}()
	} else {
		_ = ask.Close()
	}
	from := bufio.NewReaderSize(tell, 64<<10)
	line, err := from.ReadSlice('\n')
	var head heading
	if err == nil {
		err = json.Unmarshal(line, &head)
	}
	switch {
	case err != nil:
		return fmt.Errorf("the reader of the log ended before it answered: %w", cause(ctx, err))
	case head.Missing:
		return fmt.Errorf("%s: %w", head.Error, fs.ErrNotExist)
	case head.Error != "":
		return errors.New(head.Error)
	}
	if begin != nil {
		begin(head.Offset)
	}
	if _, err := io.Copy(w, from); err != nil {
		return fmt.Errorf("read the log: %w", cause(ctx, err))
	}
	return nil
}

// cause returns why a context has ended, or the error if it has not.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// ErrReading says that as many logs of a user are being read as may be.
var ErrReading = errors.New("too many logs are being read")

func (s *Starter) enterReading(uid int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading[uid] >= mostReading {
		return fmt.Errorf("%w: %d of user %d", ErrReading, mostReading, uid)
	}
	s.reading[uid]++
	return nil
}

// pace returns what slows a user down who reads logs one after the other.
func (s *Starter) pace(uid int) *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paces[uid] == nil {
		s.paces[uid] = rate.NewLimiter(readingsPerSecond, mostReading)
	}
	return s.paces[uid]
}

// count returns a number that no other reader of this process has.
func (s *Starter) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted++
	return s.counted
}

func (s *Starter) leaveReading(uid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading[uid]--; s.reading[uid] == 0 {
		delete(s.reading, uid)
	}
}

// endReader waits until a reader has ended, to which nobody listens any more, and ends it if it
// does not: its user may have stopped it. It counts for that user until it has ended.
func (s *Starter) endReader(reader process.ID, uid int) {
	ended := make(chan struct{})
	if _, err := s.Watch(reader, func() { close(ended) }); err != nil {
		s.leaveReading(uid)
		return
	}
	select {
	case <-ended:
		s.leaveReading(uid)
	case <-time.After(readerEndsWithin):
		_ = s.Kill(reader) // it may have ended
		go func() { <-ended; s.leaveReading(uid) }()
	}
}

// startReader starts a process that reads a log. It reads its task from ask, and writes to
// tell.
func (s *Starter) startReader(ctx context.Context) (ask, tell *os.File, reader process.ID, err error) {
	theirIn, ask, err := os.Pipe()
	if err != nil {
		return nil, nil, reader, err
	}
	defer theirIn.Close()
	tell, theirOut, err := os.Pipe()
	if err != nil {
		return nil, nil, reader, errors.Join(err, ask.Close())
	}
	defer theirOut.Close()
	files := []*os.File{theirIn, theirOut}
	if s.manager != nil {
		name := fmt.Sprintf("%s-%d", s.readers, s.count())
		reader, err = s.manager.start(ctx, name, "a reader of a log of berth", []string{s.Program, ReaderVerb}, runs.Limits{}, files)
	} else {
		reader, err = s.child(ctx, s.Program, []string{ReaderVerb}, nil, files)
	}
	if err != nil {
		return nil, nil, reader, errors.Join(err, ask.Close(), tell.Close())
	}
	return ask, tell, reader, nil
}

// ServeLog is the reader: it takes its task from the first line of in, becomes the user,
// and writes a heading and then the log to out. A log that is followed is followed until
// in ends. ServeLog changes the user of this process, so the process must end after it.
func ServeLog(in, out *os.File) error {
	r, err := readTask(in)
	if err != nil {
		return err
	}
	log, from, err := openTo(r)
	head := heading{Offset: from}
	if err != nil {
		head = heading{Error: err.Error(), Missing: errors.Is(err, fs.ErrNotExist)}
	}
	if err := json.NewEncoder(out).Encode(head); err != nil || head.Error != "" {
		return err
	}
	defer log.Close()
	return copyLog(in, out, log, from, r)
}

// readTask reads the first line, and nothing behind it.
func readTask(in io.Reader) (Reading, error) {
	var line []byte
	for one := make([]byte, 1); len(line) < mostPath; line = append(line, one[0]) {
		if _, err := io.ReadFull(in, one); err != nil {
			return Reading{}, fmt.Errorf("read what to read: %w", err)
		}
		if one[0] == '\n' {
			break
		}
	}
	var r Reading
	if err := json.Unmarshal(line, &r); err != nil {
		return Reading{}, fmt.Errorf("read what to read: %w", err)
	}
	return r, nil
}

// openTo becomes the user, opens the log, and returns where to begin.
func openTo(r Reading) (*os.File, int64, error) {
	as, err := lookUp(r.User, r.UID)
	if err != nil {
		return nil, 0, err
	}
	if err := as.become(); err != nil {
		return nil, 0, err
	}
	// A pipe or a device is neither waited for nor taken as a terminal.
	log, err := os.OpenFile(r.Path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, 0, err
	}
	about, err := log.Stat()
	switch {
	case err != nil:
	case !about.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file: only such a log can be read", r.Path)
	}
	if err != nil {
		return nil, 0, errors.Join(err, log.Close())
	}
	from, err := r.begin(log, about.Size())
	if err != nil {
		return nil, 0, errors.Join(err, log.Close())
	}
	return log, from, nil
}

// most returns how much is read at once.
func (r Reading) most() int64 {
	if r.Most <= 0 {
		return mostLog
	}
	return min(r.Most, mostLog)
}

// begin returns where to begin in a log of a size.
func (r Reading) begin(log io.ReaderAt, size int64) (int64, error) {
	if r.Offset > 0 {
		return min(r.Offset, size), nil
	}
	first := max(size-r.most(), 0)
	if r.Lines <= 0 {
		return first, nil
	}
	return tail.Start(log, first, size, r.Lines)
}

// copyLog copies a log from an offset, and follows it if that was asked for.
func copyLog(in, out, log *os.File, from int64, r Reading) error {
	if !r.Follow {
		_, err := io.Copy(out, io.NewSectionReader(log, from, r.most()))
		return err
	}
	changes, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err == nil {
		defer unix.Close(changes)
		_, err = unix.InotifyAddWatch(changes, "/proc/self/fd/"+strconv.Itoa(int(log.Fd())), unix.IN_MODIFY)
	}
	if err != nil {
		changes = -1 // it is looked at again and again
	}
	for over := false; ; {
		about, err := log.Stat()
		if err != nil {
			return err
		}
		if about.Size() < from {
			from = 0 // somebody has emptied it
		}
		n, err := io.Copy(out, io.NewSectionReader(log, from, about.Size()-from))
		if from += n; err != nil || over {
			return err
		}
		if over, err = await(in, out, changes); err != nil {
			return err
		}
	}
}

// await waits until the log may have changed, and reports whether the input has ended. It
// returns an error if nobody reads the output any more.
func await(in, out *os.File, changes int) (over bool, err error) {
	polled := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}, {Fd: int32(out.Fd())}, {Fd: int32(changes), Events: unix.POLLIN}}
	if _, err := unix.Poll(polled, lookAgain); err != nil && !errors.Is(err, unix.EINTR) {
		return false, err
	}
	if polled[1].Revents != 0 {
		return false, unix.EPIPE
	}
	if polled[2].Revents != 0 {
		var news [4096]byte
		_, _ = unix.Read(changes, news[:])
	}
	return polled[0].Revents != 0, nil
}
