package drm

import (
	"cmp"
	"errors"
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

	mu     sync.Mutex // guards the fields below
	looked time.Time
	began  time.Time // of the first look
	whole  bool      // it has looked through every process that was there at the first look
	known  map[int]*opener
	share  int          // how many files of cards are known of each process
	hidden map[int]bool // processes whose files berth may not see; 0 stands for all of them
}

// Looks at open files.
const (
	lookPeriod    = time.Second      // for new processes
	youngPeriod   = 2 * time.Second  // processes younger than settledAge
	openPeriod    = 5 * time.Second  // those with a card open
	settledPeriod = 30 * time.Second // the others
	settledAge    = time.Minute

	// How much it does at a time, in open files. A process that has more than fit into
	// one slice goes on where it was, after the others.
	sliceSize  = 8 << 10 // bytes of a folder: about 340 files
	mostLinks  = 8192    // in one look
	firstLinks = 65536   // in the first one
	mostFiles  = 256     // of cards that are known of a process
	mostKnown  = 8192    // of cards that are known in sum: those who have more share them
	leastFiles = 8       // that each process has of them, however many there are
	mostReads  = 1024    // of what the driver says, in one reading of a card
)

// opener is a process.
type opener struct {
	pid   int
	uid   uint32
	born  int64 // when its directory was made; a new process with the same pid differs
	since time.Time
	due   time.Time // when to look at it again
	whole bool      // it has been looked through once
	at    int64     // where the next slice of its files begins; 0 between two passes through them
	name  string
	files []*openFile // those of cards
	more  bool        // it has more than there is room for in sum
}

// openFile is a file that a process has open.
type openFile struct {
	fd    string
	node  string // /dev/dri/renderD128
	found bool   // in this pass

	// The one reading of the card owns what follows.
	read   time.Time // when the driver was last asked; zero if it was not
	client Client    // what it said
	ours   bool      // the client is one of the card
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
// complete reports whether berth sees the files of every process. Of a card with very
// many open files, some clients are as they were at an earlier reading. Until all processes
// that were there at first have been looked through, which takes a while where very many
// files are open, Of says nothing of them: whole is false.
func (o *Openers) Of(card *Card, now time.Time) (used []Used, complete, whole bool) {
	open, complete, whole := o.find(card.Nodes, now)
	o.ask(card, now, slices.Clone(open))
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
	return used, complete, whole
}

// ask asks the driver about open files. Each process has the same share of the questions,
// and of its files those come first that were not asked for longest.
func (o *Openers) ask(card *Card, now time.Time, open []opener) {
	asked := make(map[int]time.Time, len(open)) // when the driver was last asked about a file of a process
	for _, p := range open {
		asked[p.pid] = slices.MaxFunc(p.files, earlier).read
	}
	slices.SortStableFunc(open, func(a, b opener) int { return asked[a.pid].Compare(asked[b.pid]) })
	open = open[:min(len(open), mostReads)]
	var space [2 * mostText]byte // drivers write more about a client every year
	for _, p := range open {
		slices.SortStableFunc(p.files, earlier)
		for _, f := range p.files[:min(len(p.files), mostReads/len(open))] {
			text, err := Read(o.root.Path("proc", strconv.Itoa(p.pid), "fdinfo", f.fd), space[:])
			f.read = now
			if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
				continue // what it said before stands
			}
			f.client, f.ours = ParseClient(text)
			f.ours = f.ours && err == nil && (f.client.PCI == "" || f.client.PCI == card.PCI) && f.client.Driver == card.Driver
		}
	}
}

func earlier(a, b *openFile) int { return a.read.Compare(b.read) }

// find returns the processes that have one of the nodes open, with these files only.
func (o *Openers) find(nodes []string, now time.Time) (open []opener, complete, whole bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.looked.IsZero() || now.Sub(o.looked) >= lookPeriod || now.Before(o.looked) {
		o.look(now)
		o.looked = now
	}
	complete = o.whole && len(o.hidden) == 0
	for _, p := range o.known {
		complete = complete && !p.more
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
	return open, complete, o.whole
}

// look brings known up to date. If /proc cannot be read, what is known stays. The caller
// holds mu.
func (o *Openers) look(now time.Time) {
	names, err := o.processes()
	if err != nil {
		o.hidden[0] = true
		return
	}
	links := mostLinks
	if o.began.IsZero() {
		o.began, links = now, firstLinks
	}
	fresh, hidden := make(map[int]*opener, len(o.known)), map[int]bool{}
	var due []*opener
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p := o.known[pid]
		if p == nil {
			p = &opener{pid: pid, since: now, due: now} // not before those that wait already
			var about unix.Stat_t
			if unix.Stat(o.root.Path("proc", name), &about) == nil {
				p.uid = about.Uid
			}
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
	o.shareOut()
	slices.SortFunc(due, func(a, b *opener) int { return a.due.Compare(b.due) })
	inTurn(due)
	for len(due) > 0 && links > 0 {
		p := due[0]
		links -= 1 + o.lookAt(p, now)
		if due = due[1:]; p.at > 0 {
			due = append(due, p)
		}
	}
	for _, p := range o.known {
		if !p.whole && p.since.Equal(o.began) {
			return
		}
	}
	o.whole = true
}

// inTurn sorts processes so that users take turns: the many processes of one keep nobody
// else's from being looked at.
func inTurn(due []*opener) {
	turn, of := make(map[*opener]int, len(due)), map[uint32]int{}
	for _, p := range due {
		turn[p] = of[p.uid]
		of[p.uid]++
	}
	slices.SortStableFunc(due, func(a, b *opener) int { return cmp.Compare(turn[a], turn[b]) })
}

// shareOut sets how many files of cards are known of each process, so that all of them
// together are few enough to copy and sort for each reading. The caller holds mu.
func (o *Openers) shareOut() {
	users := 0
	for _, p := range o.known {
		if len(p.files) > 0 {
			users++
		}
	}
	o.share = min(mostFiles, max(leastFiles, mostKnown/max(users, 1)))
	for _, p := range o.known {
		if len(p.files) > o.share {
			p.files, p.more = slices.Clone(p.files[:o.share]), true
		}
	}
}

// processes returns the names of all processes, and of other files in /proc.
func (o *Openers) processes() ([]string, error) {
	proc, err := os.Open(o.root.Path("proc"))
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	return proc.Readdirnames(-1)
}

// lookAt reads a slice of the open files of a process, and returns how many it has read.
// The caller holds mu.
func (o *Openers) lookAt(p *opener, now time.Time) (read int) {
	dir := o.root.Path("proc", strconv.Itoa(p.pid))
	var about unix.Stat_t
	if unix.Stat(dir, &about) != nil {
		delete(o.known, p.pid) // it ended in between
		return 0
	}
	if born := about.Mtim.Nano(); p.born != born {
		since := now
		if p.born == 0 {
			since = p.since
		}
		*p = opener{pid: p.pid, born: born, since: since}
	}
	p.uid = about.Uid
	p.due = now
	if p.at == 0 {
		p.more = false
	}
	files, read, next, err := openFiles(dir, p.at)
	if err != nil && !Denied(err) {
		p.whole = p.whole || errors.Is(err, unix.ENOENT)
		return 0 // it has ended, or berth has too many files open: what is known stays
	}
	delete(o.hidden, p.pid)
	if err != nil {
		o.hidden[p.pid] = true
	}
	for _, f := range files {
		if i := slices.IndexFunc(p.files, func(known *openFile) bool { return known.fd == f.fd && known.node == f.node }); i >= 0 {
			p.files[i].found = true
		} else if len(p.files) < o.share {
			p.files = append(p.files, f)
		} else {
			p.more = p.more || o.share < mostFiles
		}
	}
	if len(files) > 0 {
		if comm, err := Text(dir, "comm"); err == nil {
			p.name = gpu.Printable(comm, 128)
		}
	}
	if p.at = next; p.at > 0 {
		return read
	}
	p.whole = true
	p.files = slices.DeleteFunc(p.files, func(f *openFile) bool { return !f.found })
	for _, f := range p.files {
		f.found = false
	}
	switch {
	case len(p.files) > 0:
		p.due = now.Add(openPeriod)
	case now.Sub(p.since) < settledAge:
		p.due = now.Add(youngPeriod)
	default:
		p.due = now.Add(settledPeriod)
	}
	return read
}

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
	var space [128]byte
	for _, fd := range fds {
		n, err := unix.Readlink(filepath.Join(dir, "fd", fd), space[:])
		if err != nil {
			continue
		}
		if node := string(space[:n]); strings.HasPrefix(node, "/dev/dri/") {
			files = append(files, &openFile{fd: fd, node: node, found: true})
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
