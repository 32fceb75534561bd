package drm

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
)

// Openers knows which processes have a card open. It reads the open files of every
// process that it may read, which costs tens of microseconds for a process. So it looks
// at a process when it is new, often while it is young, and rarely after a while without
// a card; and at mostLooks of them at a time, except the first time. It never asks a
// driver: cards share it, and one of them may hang.
type Openers struct {
	root Root

	mu     sync.Mutex // guards the fields below
	looked time.Time
	known  map[int]*opener
	hidden map[int]bool // processes whose files berth may not see
}

// How often Openers looks at processes.
const (
	lookPeriod    = time.Second      // between two looks, at least
	youngPeriod   = 2 * time.Second  // young ones: programs open their GPU when they start
	openPeriod    = 5 * time.Second  // those with a card open
	settledPeriod = 30 * time.Second // the others
	settledAge    = time.Minute
	mostLooks     = 64
)

// opener is a process.
type opener struct {
	pid   int
	born  int64 // when its directory was made; a new process with the same pid differs
	since time.Time
	due   time.Time // when to look at it again
	name  string
	files []openFile // those of cards
}

// openFile is a file that a process has open.
type openFile struct {
	fd   string
	node string // /dev/dri/renderD128
}

// Openers returns an Openers that has not looked yet.
func (r Root) Openers() *Openers {
	return &Openers{root: r, known: map[int]*opener{}, hidden: map[int]bool{}}
}

// Used is a process that uses a card.
type Used struct {
	PID     int
	Name    string
	Clients []Client
}

// Of returns the processes that have the card open, by pid, with what the driver says
// about each file. If several processes share a client, only the first of them has it.
// complete reports whether berth sees the files of every process.
func (o *Openers) Of(card *Card, now time.Time) (used []Used, complete bool) {
	open, complete := o.find(card.Nodes, now)
	seen := map[uint64]bool{}
	var space [2 * mostText]byte // drivers write more about a client every year
	for _, p := range open {
		u := Used{PID: p.pid, Name: p.name}
		for _, f := range p.files {
			text, err := Read(o.root.Path("proc", strconv.Itoa(p.pid), "fdinfo", f.fd), space[:])
			if err != nil {
				continue // it was closed in between
			}
			c, ok := ParseClient(text)
			if ok && (c.PCI == "" || c.PCI == card.PCI) && c.Driver == card.Driver && !seen[c.ID] {
				seen[c.ID] = true
				u.Clients = append(u.Clients, c)
			}
		}
		if len(u.Clients) > 0 {
			used = append(used, u)
		}
	}
	return used, complete
}

// find returns the processes that have one of the nodes open, with these files only.
func (o *Openers) find(nodes []string, now time.Time) (open []opener, complete bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.looked.IsZero() || now.Sub(o.looked) >= lookPeriod || now.Before(o.looked) {
		o.look(now)
		o.looked = now
	}
	for _, p := range o.known {
		ours := opener{pid: p.pid, name: p.name}
		for _, f := range p.files {
			if slices.Contains(nodes, f.node) {
				ours.files = append(ours.files, f)
			}
		}
		if len(ours.files) > 0 {
			open = append(open, ours)
		}
	}
	slices.SortFunc(open, func(a, b opener) int { return cmp.Compare(a.pid, b.pid) })
	return open, len(o.hidden) == 0
}

// look brings known up to date. The caller holds mu.
func (o *Openers) look(now time.Time) {
	proc, err := os.Open(o.root.Path("proc"))
	if err != nil {
		o.known, o.hidden = map[int]*opener{}, map[int]bool{0: true}
		return
	}
	names, _ := proc.Readdirnames(-1)
	proc.Close()
	fresh, hidden := make(map[int]*opener, len(o.known)), map[int]bool{}
	var due []*opener
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p := o.known[pid]
		if p == nil {
			p = &opener{pid: pid, since: now}
		}
		fresh[pid] = p
		if o.hidden[pid] {
			hidden[pid] = true
		}
		if !now.Before(p.due) {
			due = append(due, p)
		}
	}
	o.known, o.hidden = fresh, hidden
	slices.SortFunc(due, func(a, b *opener) int { return a.due.Compare(b.due) })
	if !o.looked.IsZero() && len(due) > mostLooks {
		due = due[:mostLooks]
	}
	for _, p := range due {
		o.lookAt(p, now)
	}
}

// lookAt reads the open files of a process. The caller holds mu.
func (o *Openers) lookAt(p *opener, now time.Time) {
	dir := o.root.Path("proc", strconv.Itoa(p.pid))
	var about unix.Stat_t
	if unix.Stat(dir, &about) != nil {
		delete(o.known, p.pid) // it ended in between
		return
	}
	if born := about.Mtim.Nano(); p.born != born {
		*p = opener{pid: p.pid, born: born, since: now}
	}
	var err error
	p.files, err = openFiles(dir)
	delete(o.hidden, p.pid)
	if Denied(err) {
		o.hidden[p.pid] = true
	}
	switch {
	case len(p.files) > 0:
		p.due = now.Add(openPeriod)
		if comm, err := Text(dir, "comm"); err == nil {
			p.name = gpu.Printable(comm, 128)
		}
	case now.Sub(p.since) < settledAge:
		p.due = now.Add(youngPeriod)
	default:
		p.due = now.Add(settledPeriod)
	}
}

// openFiles returns the files of cards that a process has open.
func openFiles(dir string) ([]openFile, error) {
	folder, err := os.Open(filepath.Join(dir, "fd"))
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	fds, err := folder.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	slices.Sort(fds)
	var files []openFile
	var space [128]byte
	for _, fd := range fds {
		n, err := unix.Readlink(filepath.Join(dir, "fd", fd), space[:])
		if err != nil {
			continue
		}
		if node := string(space[:n]); strings.HasPrefix(node, "/dev/dri/") {
			files = append(files, openFile{fd, node})
		}
	}
	return files, nil
}

// Name returns the name of a process, which may have no card open, or the empty string if
// it has ended.
func (o *Openers) Name(pid int) string {
	comm, err := Text(o.root.Path("proc", strconv.Itoa(pid), "comm"))
	if err != nil {
		return ""
	}
	return gpu.Printable(comm, 128)
}
