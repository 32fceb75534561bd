package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/stored"
)

// Repair describes the repair of the journals of leases and of jobs.
type Repair struct {
	Repaired
	Leases []string  `json:"leases"`         // ids of the leases that remain
	Jobs   *Repaired `json:"jobs,omitempty"` // the journal of jobs; nil if there is none
}

// Repaired describes the repair of one journal.
type Repaired struct {
	Folder  string   `json:"folder"`
	Damage  string   `json:"damage,omitempty"` // empty if there was none
	Kept    int      `json:"kept_records"`
	Dropped int      `json:"dropped_records"`
	Aside   []string `json:"put_aside"`
}

// Repair keeps the records before the damage and puts the damaged files aside, in the
// journal of leases and in that of jobs. It leaves a sound journal unchanged, and refuses
// one that a daemon has open. OfJobs complains about entries of jobs that make no sense.
func (j *Journal) Repair(ofJobs func(journal.Entry) error) (Repair, error) {
	did, err := repairIn(file.PrivateDir(j.dir), j.dir)
	jobs := filepath.Join(filepath.Dir(j.dir), inventory.JobJournal)
	if _, none := os.Stat(jobs); err != nil || none != nil {
		return did, err
	}
	of, err := salvage(file.PrivateDir(jobs), jobs, ofJobs, nil)
	did.Jobs = &of
	return did, err
}

// repairIn repairs the journal of leases in a folder. No fence that any byte of it names is
// given again.
func repairIn(disk file.Folder, dir string) (Repair, error) {
	book := lease.New()
	given, err := FencesIn(disk)
	if err != nil {
		return Repair{}, err
	}
	did := Repair{Leases: []string{}}
	did.Repaired, err = salvage(disk, dir, Believe(book), func() [][]byte { return fenceMark(max(book.Fence(), given), "repaired") })
	for _, l := range book.Leases() {
		did.Leases = append(did.Leases, l.ID)
	}
	return did, err
}

// salvage repairs one journal; see filelog.Salvage.
func salvage(disk file.Folder, dir string, replay func(journal.Entry) error, last func() [][]byte) (Repaired, error) {
	salvaged, err := filelog.Salvage(disk, replay, last)
	if locked := (*file.LockedError)(nil); errors.As(err, &locked) {
		who := "a daemon"
		if locked.PID != 0 {
			who = fmt.Sprintf("a daemon, process %d,", locked.PID)
		}
		return Repaired{}, &Error{fmt.Errorf("%s has this journal open", who), "stop it first; nothing was changed"}
	}
	if err != nil {
		return Repaired{}, err
	}
	did := Repaired{Folder: dir, Kept: salvaged.Kept, Dropped: salvaged.Dropped, Aside: append([]string{}, salvaged.Aside...)}
	if d := salvaged.Damage; d != nil {
		did.Damage = fmt.Sprintf("%s at byte %d, record %d: %s", d.File, d.Offset, d.Seq, d.Reason)
	}
	return did, nil
}

// fenceMark returns entries that make the next daemon give out larger fences than one, by
// more than may have been lost: it skips some if the last mark is not from its own boot.
// There are two, so that one that is damaged later is not missed.
func fenceMark(fence uint64, why string) [][]byte {
	mark := stored.NewFence(fence, why)
	text := lease.AppendEntry(nil, &mark)
	return [][]byte{text, text}
}

// FencesIn returns the largest fence in the files of a journal, whatever is damaged there,
// also in those that an earlier repair has put aside. A number that was damaged may be too
// large, by a digit: fences may skip.
func FencesIn(disk file.Folder) (largest uint64, err error) {
	names, err := disk.List()
	for _, name := range names {
		data, err := disk.ReadFile(name)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", name, err)
		}
		for _, found := range fenceInText.FindAllSubmatch(data, -1) {
			if n, err := strconv.ParseUint(string(found[1]), 10, 64); err == nil && n < mostFence {
				largest = max(largest, n)
			}
		}
	}
	return largest, err
}

var fenceInText = regexp.MustCompile(`"fence":([0-9]+)`)

// mostFence is more than any machine gives out.
const mostFence = 1 << 60

// SkipFences makes the next daemon give out fences that are higher than any that may have
// been lost and than one that was given, and by so many more. A daemon skips fences if the
// last mark is not from its own boot. It returns the book that the journal in the folder
// describes.
func SkipFences(folder string, given, many uint64, why string) (*lease.Book, error) {
	book := lease.New()
	log, _, err := filelog.Open(file.PrivateDir(folder), filelog.Options{}, Believe(book))
	if err != nil {
		return nil, err
	}
	return book, errors.Join(log.Append(fenceMark(max(book.Fence(), given)+many, why), journal.Care{Durable: true, Reserve: true}), log.Close())
}
