package process

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The variables by which berth knows the programs that it has started.
const (
	LeaseVariable  = "BERTH_LEASE"
	FenceVariable  = "BERTH_FENCE"
	MinderVariable = "BERTH_MINDER"
)

// Said is what a process was started with: the variables above, and the first words of its
// command. It is empty if this process may not inspect the other, or gets no answer.
type Said struct {
	variables map[string]string
	command   []byte
}

// Variable returns one of the variables above, or false if the process does not have it.
func (s Said) Variable(name string) (string, bool) {
	value, has := s.variables[name]
	return value, has
}

// Command returns the first words of the command. A zombie or a thread of the kernel has
// none.
func (s Said) Command() []string {
	if len(s.command) == 0 {
		return nil
	}
	var words []string
	for word := range bytes.SplitSeq(bytes.TrimSuffix(s.command, []byte{0}), []byte{0}) {
		words = append(words, string(word))
	}
	return words
}

// Said returns what a process was started with.
//
// The kernel reads it from the memory of the process. A process can block that for ever,
// for example with a file system that does not answer. So a goroutine reads it, and Said
// waits a tenth of a second at most.
func (t Table) Said(id ID) Said {
	uid, err := t.UID(id.PID)
	if err != nil {
		return Said{}
	}
	said, _ := t.hear(id, uid)
	return said
}

// hear returns what a process of a user was started with, and false if it has not answered in
// time.
func (t Table) hear(id ID, uid int) (Said, bool) {
	if id.PID > lastPID {
		return Said{}, true
	}
	return reading.ask(source{t.root, id}, t.accountable(id.PID, uid))
}

// accountable returns the user to whom a process of a user is counted. In user namespaces one
// user has thousands of user ids: there it is the one who made the outermost of them.
func (t Table) accountable(pid, uid int) int {
	space, err := unix.Open(t.file(pid, "ns/user"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for err == nil {
		parent, outermost := unix.IoctlRetInt(space, unix.NS_GET_PARENT)
		if outermost == nil {
			if owner, err := unix.IoctlGetUint32(space, unix.NS_GET_OWNER_UID); err == nil {
				uid = int(owner)
			}
		}
		_ = unix.Close(space)
		space, err = parent, outermost
	}
	return uid
}

// source is where a reader reads.
type source struct {
	root string
	id   ID
}

// mostCommand is the number of bytes to read of the command of a process, enough for the
// name of a script.
const mostCommand = 4096

func (s source) read() (said Said) { // what cannot be read is empty
	t := Table{root: s.root}
	if file, err := os.Open(t.file(s.id.PID, "environ")); err == nil {
		said.variables = variablesIn(file)
		_ = file.Close()
	}
	said.command, _ = t.text(s.id.PID, "cmdline", mostCommand)
	return said
}

// A process may say that any part of its memory is its environment. With execve it gets
// 6 MiB at most.
const (
	mostEnviron   = 6 << 20
	mostVariables = 1 << 14
)

// variablesIn returns the variables by which berth knows its programs. It keeps nothing else
// of an environment. Of a variable that is there twice, the first counts.
func variablesIn(environ io.Reader) map[string]string {
	found := map[string]string{}
	entries, rest := bufio.NewReader(io.LimitReader(environ, mostEnviron)), false
	for range mostVariables {
		entry, err := entries.ReadSlice(0)
		cut := errors.Is(err, bufio.ErrBufferFull)
		name, value, _ := bytes.Cut(bytes.TrimSuffix(entry, []byte{0}), []byte("="))
		switch string(name) {
		case LeaseVariable, FenceVariable, MinderVariable:
			if _, again := found[string(name)]; !again && !rest && !cut {
				found[string(name)] = string(value)
			}
		}
		if rest = cut; err != nil && !cut {
			break
		}
	}
	return found
}

const (
	// A reader has ten pauses of this length to answer. A busy machine makes pauses longer;
	// those do not count.
	pause    = 10 * time.Millisecond
	pauses   = 10
	mostBusy = 40 // pauses that do not count

	// With so many late readers, others get half of the time, with twice as many a third, ….
	fewLate = 8
	// mostLate limits the late readers: each has a thread. One user causes at most a tenth of
	// them, so that the processes of others are read.
	mostLate = 1000
	lateEach = mostLate / 10
)

// readers read what processes say, at most one for each process.
type readers struct {
	mu   sync.Mutex // guards what follows
	by   map[source]*reader
	late int         // readers that read, and that nobody waits for
	each map[int]int // of those, by user
}

// reader reads what one process says. It answers once.
type reader struct {
	uid  int
	done chan struct{} // closed when it has answered
	said Said

	// late means that the process did not answer in time before. Nobody waits for it again
	// until it has ended: whoever asks gets what it has said since the last time.
	late bool // guarded by mu of readers
}

var reading = readers{by: map[source]*reader{}, each: map[int]int{}}

// ask returns what a process of a user says, and false if it does not answer in time.
func (rs *readers) ask(from source, uid int) (Said, bool) {
	rs.mu.Lock()
	r, full := rs.by[from], rs.late >= mostLate || rs.each[uid] >= lateEach
	switch {
	case r != nil && r.late:
		said, answered := r.answer()
		if answered && !full {
			rs.start(from, uid, true)
		}
		rs.mu.Unlock()
		return said, answered
	case r == nil && full:
		rs.mu.Unlock()
		return Said{}, false
	case r == nil:
		r = rs.start(from, uid, false)
	}
	tries := max(pauses/(1+rs.late/fewLate), 1)
	rs.mu.Unlock()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for counted, busy := 0, 0; counted < tries && busy < mostBusy; {
		began := time.Now()
		select {
		case <-r.done:
			return r.said, true
		case <-timer.C:
		}
		if timer.Reset(pause); time.Since(began) < 2*pause {
			counted++
		} else {
			busy++
		}
	}
	return rs.giveUp(r)
}

// start has a process read. The caller holds mu.
func (rs *readers) start(from source, uid int, late bool) *reader {
	r := &reader{uid: uid, done: make(chan struct{}), late: late}
	if rs.by[from] = r; late {
		rs.count(r, 1)
	}
	go func() {
		r.said = from.read()
		rs.mu.Lock()
		defer rs.mu.Unlock()
		if !r.late {
			delete(rs.by, from)
		} else {
			rs.count(r, -1)
		}
		close(r.done)
	}()
	return r
}

// count counts a late reader. The caller holds mu.
func (rs *readers) count(r *reader, by int) {
	rs.late += by
	if rs.each[r.uid] += by; rs.each[r.uid] == 0 {
		delete(rs.each, r.uid)
	}
}

// giveUp makes a reader a late one, unless it has just answered. It forgets late ones whose
// processes have ended.
func (rs *readers) giveUp(r *reader) (Said, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	said, answered := r.answer()
	if answered || r.late {
		return said, answered
	}
	r.late = true
	rs.count(r, 1)
	for from, old := range rs.by {
		if _, answered := old.answer(); answered && !(Table{root: from.root}).Alive(from.id) {
			delete(rs.by, from)
		}
	}
	return Said{}, false
}

// answer returns what a process has said, and false if the reader still reads.
func (r *reader) answer() (Said, bool) {
	select {
	case <-r.done:
		return r.said, true
	default:
		return Said{}, false
	}
}
