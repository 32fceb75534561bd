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
// process that it may read, which costs microseconds for a file. So it looks at a process
// when it is new, often while it is young, and rarely after a while without a card; and
// at so few files at a time that no user can make a reading late by having many. It never
// asks a driver: cards share it, and one of them may hang.
type Openers struct {
	root Root

	looking sync.Mutex // held by the one that looks; guards what only a look uses of an opener

	mu     sync.Mutex // guards the fields below, and name and files of an opener; held for moments
	looked time.Time  // when the last look began; zero before the first one has ended
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

	// How much it does at a time, in open files. A process that has more than fit into
	// one slice goes on where it was with the next look.
	sliceSize  = 8 << 10 // bytes of a folder: about 340 files
	mostLinks  = 8192    // in one look
	firstLinks = 65536   // in the first one
	mostFiles  = 256     // of cards that are known of a process
	mostReads  = 1024    // of what the driver says, in one reading of a card
)

// opener is a process.
type opener struct {
	pid   int
	born  int64 // when its directory was made; a new process with the same pid differs
	since time.Time
	due   time.Time   // when to look at it again
	at    int64       // where the next slice begins; 0 between two passes through its files
	found []*openFile // in this pass

	name  string
	files []*openFile // those of cards; replaced, never changed
}

// openFile is a file that a process has open.
type openFile struct {
	fd   string
	node string // /dev/dri/renderD128

	// The one reading of the card owns what follows.
	read   time.Time // when the driver was last asked; zero if it was not
	client Client    // what it said
	ours   bool      // the client is one of the card
	twice  bool      // the process has another file of the client
}

// Openers returns an Openers that has not looked yet.
func (r Root) Openers() *Openers { return &Openers{root: r} }

// Used is a process that uses a card.
type Used struct {
	PID     int
	Name    string
	Clients []Client
}

// Of returns the processes that have the card open, by pid, with what the driver says
// about each file. If several processes share a client, only the first of them has it.
// complete reports whether berth sees the files of every process. Of a card with very
// many open files, some clients are as they were at an earlier reading.
func (o *Openers) Of(card *Card, now time.Time) (used []Used, complete bool) {
	open, complete := o.find(card.Nodes, now)
	o.ask(card, now, open)
	seen := map[uint64]bool{}
	for _, p := range open {
		u := Used{PID: p.pid, Name: p.name}
		for _, f := range p.files {
			if f.ours && !seen[f.client.ID] {
				seen[f.client.ID] = true
				u.Clients = append(u.Clients, f.client)
			}
		}
		if len(u.Clients) > 0 {
			used = append(used, u)
		}
	}
	return used, complete
}

// ask asks the driver about open files. Each process has the same share of the questions,
// and of its files those come first that were not asked for longest.
func (o *Openers) ask(card *Card, now time.Time, open []opener) {
	turn := slices.Clone(open)
	slices.SortStableFunc(turn, func(a, b opener) int { return a.asked().Compare(b.asked()) })
	turn = turn[:min(len(turn), mostReads)]
	var space [2 * mostText]byte // drivers write more about a client every year
	for _, p := range turn {
		files := slices.Clone(p.files)
		slices.SortStableFunc(files, func(a, b *openFile) int {
			switch {
			case a.twice && !b.twice:
				return 1
			case b.twice && !a.twice:
				return -1
			}
			return a.read.Compare(b.read)
		})
		seen := map[uint64]bool{}
		for i, f := range files {
			if i < mostReads/len(turn) {
				text, err := Read(o.root.Path("proc", strconv.Itoa(p.pid), "fdinfo", f.fd), space[:])
				f.client, f.ours = ParseClient(text)
				f.ours = f.ours && err == nil && (f.client.PCI == "" || f.client.PCI == card.PCI) && f.client.Driver == card.Driver
				f.read = now
			}
			f.twice = f.ours && seen[f.client.ID]
			seen[f.client.ID] = seen[f.client.ID] || f.ours
		}
	}
}

// asked returns when the driver was last asked about a file of a process.
func (p *opener) asked() (last time.Time) {
	for _, f := range p.files {
		if f.read.After(last) {
			last = f.read
		}
	}
	return last
}

// find returns the processes that have one of the nodes open, with these files only.
func (o *Openers) find(nodes []string, now time.Time) (open []opener, complete bool) {
	o.refresh(now)
	o.mu.Lock()
	defer o.mu.Unlock()
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

// refresh looks if that is due. If the reading of another card looks at this moment, what
// it knew before has to do.
func (o *Openers) refresh(now time.Time) {
	if !o.looking.TryLock() {
		o.mu.Lock()
		ready := !o.looked.IsZero()
		o.mu.Unlock()
		if ready {
			return
		}
		o.looking.Lock()
	}
	defer o.looking.Unlock()
	if o.looked.IsZero() || now.Sub(o.looked) >= lookPeriod || now.Before(o.looked) {
		o.look(now)
		o.mu.Lock()
		o.looked = now
		o.mu.Unlock()
	}
}

// look brings known up to date. The caller holds looking.
func (o *Openers) look(now time.Time) {
	proc, err := os.Open(o.root.Path("proc"))
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
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
	o.mu.Lock()
	o.known, o.hidden = fresh, hidden
	o.mu.Unlock()
	slices.SortFunc(due, func(a, b *opener) int { return a.due.Compare(b.due) })
	links := mostLinks
	if o.looked.IsZero() {
		links = firstLinks
	}
	for _, p := range due {
		if links <= 0 {
			break
		}
		links -= 1 + o.lookAt(p, now)
	}
}

// lookAt reads a slice of the open files of a process, and returns how many it has read.
// The caller holds looking.
func (o *Openers) lookAt(p *opener, now time.Time) (read int) {
	dir := o.root.Path("proc", strconv.Itoa(p.pid))
	var about unix.Stat_t
	if unix.Stat(dir, &about) != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.known, p.pid) // it ended in between
		return 0
	}
	files, name := p.files, p.name
	if born := about.Mtim.Nano(); p.born != born {
		p.born, p.since, p.at, p.found, files, name = born, now, 0, nil, nil, ""
	}
	found, read, next, err := openFiles(dir, p.at)
	p.at, p.found = next, append(p.found, found[:min(len(found), mostFiles-len(p.found))]...)
	for i, f := range p.found { // what is known about a file stays
		if j := slices.IndexFunc(files, f.same); j >= 0 {
			p.found[i] = files[j]
		}
	}
	if p.at > 0 { // of the rest, what the last pass has found
		files = append(slices.Clone(p.found), slices.DeleteFunc(slices.Clone(files), func(f *openFile) bool { return slices.ContainsFunc(p.found, f.same) })...)
	} else {
		files, p.found = p.found, nil
	}
	switch {
	case p.at > 0:
		p.due = now
	case len(files) > 0:
		p.due = now.Add(openPeriod)
	case now.Sub(p.since) < settledAge:
		p.due = now.Add(youngPeriod)
	default:
		p.due = now.Add(settledPeriod)
	}
	if len(files) > 0 {
		if comm, err := Text(dir, "comm"); err == nil {
			name = gpu.Printable(comm, 128)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	p.files, p.name = files, name
	delete(o.hidden, p.pid)
	if Denied(err) {
		o.hidden[p.pid] = true
	}
	return read
}

func (f *openFile) same(other *openFile) bool { return f.fd == other.fd && f.node == other.node }

// openFiles returns the files of cards in the slice of the open files of a process that
// begins at a position, and the position of the next slice, which is 0 after the last. read
// is the number of files in the slice.
func openFiles(dir string, at int64) (files []*openFile, read int, next int64, err error) {
	folder, err := unix.Open(filepath.Join(dir, "fd"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, 0, err
	}
	defer unix.Close(folder)
	if _, err := unix.Seek(folder, at, unix.SEEK_SET); err != nil {
		return nil, 0, 0, err
	}
	var slice [sliceSize]byte
	n, err := unix.ReadDirent(folder, slice[:])
	if err != nil || n <= 0 {
		return nil, 0, 0, err
	}
	_, _, fds := unix.ParseDirent(slice[:n], -1, nil)
	slices.Sort(fds)
	var space [128]byte
	for _, fd := range fds {
		n, err := unix.Readlink(filepath.Join(dir, "fd", fd), space[:])
		if err != nil {
			continue
		}
		if node := string(space[:n]); strings.HasPrefix(node, "/dev/dri/") {
			files = append(files, &openFile{fd: fd, node: node})
		}
	}
	next, err = unix.Seek(folder, 0, unix.SEEK_CUR)
	if n < sliceSize/2 { // the kernel fills a slice as long as there are files
		next = 0
	}
	return files, len(fds), next, err
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
