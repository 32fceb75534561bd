package doctor

import (
	"errors"
	"fmt"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/stored"
)

// Repair describes the repair of a journal.
type Repair struct {
	Folder  string   `json:"folder"`
	Damage  string   `json:"damage,omitempty"` // empty if there was none
	Kept    int      `json:"kept_records"`
	Dropped int      `json:"dropped_records"`
	Aside   []string `json:"put_aside"`
	Leases  []string `json:"leases"` // ids of the leases that remain
}

// Repair keeps the records before the damage and puts the damaged files aside. It leaves
// a sound journal unchanged, and refuses one that a daemon has open.
func (j *Journal) Repair() (Repair, error) {
	salvaged, err := filelog.Salvage(file.PrivateDir(j.dir), Believe(lease.New()))
	if locked := (*file.LockedError)(nil); errors.As(err, &locked) {
		who := "a daemon"
		if locked.PID != 0 {
			who = fmt.Sprintf("a daemon, process %d,", locked.PID)
		}
		return Repair{}, &Error{fmt.Errorf("%s has this journal open", who), "stop it first; nothing was changed"}
	}
	if err != nil {
		return Repair{}, err
	}
	did := Repair{Folder: j.dir, Kept: salvaged.Kept, Dropped: salvaged.Dropped, Aside: append([]string{}, salvaged.Aside...)}
	if d := salvaged.Damage; d != nil {
		did.Damage = fmt.Sprintf("%s at byte %d, record %d: %s", d.File, d.Offset, d.Seq, d.Reason)
		if _, err := SkipFences(j.dir, 0, "repaired"); err != nil {
			return Repair{}, err
		}
	}
	book, _, err := j.book()
	if err != nil {
		return did, err
	}
	did.Leases = []string{}
	for _, l := range book.Leases() {
		did.Leases = append(did.Leases, l.ID)
	}
	return did, nil
}

// SkipFences makes the next daemon give out fences that are higher than any that may have
// been lost, and by so many more. A daemon skips fences if the last mark is not from its own
// boot. It returns the book that the journal in the folder describes.
func SkipFences(folder string, many uint64, why string) (*lease.Book, error) {
	book := lease.New()
	log, _, err := filelog.Open(file.PrivateDir(folder), filelog.Options{}, Believe(book))
	if err != nil {
		return nil, err
	}
	mark := stored.NewFence(book.Fence()+many, why)
	return book, errors.Join(log.Append([][]byte{lease.AppendEntry(nil, &mark)}, journal.Care{Durable: true, Reserve: true}), log.Close())
}
