package main

import (
	"encoding/binary"
	"os"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
)

// contender is one way to keep records. The table compares the first two.
type contender struct {
	name string
	open func(path string, durable bool) (commit func([][]byte) error, done func() error, err error)
}

func contenders() []contender {
	return []contender{
		{"berth", openBerth},
		{"bbolt", openBolt},
		{"write, file zeroed ahead", func(path string, durable bool) (func([][]byte) error, func() error, error) {
			return openRaw(path, durable, zeroAhead)
		}},
		{"write, file allocated ahead", func(path string, durable bool) (func([][]byte) error, func() error, error) {
			return openRaw(path, durable, allocateAhead)
		}},
		{"write, file growing", func(path string, durable bool) (func([][]byte) error, func() error, error) {
			return openRaw(path, durable, func(*os.File, int64) error { return nil })
		}},
	}
}

func openBerth(path string, durable bool) (func([][]byte) error, func() error, error) {
	log, _, err := filelog.Open(file.PrivateDir(path), filelog.Options{}, func(journal.Entry) error { return nil })
	if err != nil {
		return nil, nil, err
	}
	none := func(yield func([]byte) bool) {}
	commit := func(group [][]byte) error {
		if err := log.Append(group, journal.Care{Durable: durable}); err != nil {
			return err
		}
		// A daemon compacts its log too, so the numbers include compaction.
		if s := log.Stats(); s.LogEntries >= 100_000 {
			return log.Compact(s.LastSeq, none)
		}
		return nil
	}
	return commit, log.Close, nil
}

func openBolt(path string, durable bool) (func([][]byte) error, func() error, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: !durable, NoFreelistSync: true})
	if err != nil {
		return nil, nil, err
	}
	name := []byte("journal")
	if err := db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket(name); return err }); err != nil {
		return nil, nil, err
	}
	var seq uint64
	commit := func(group [][]byte) error {
		return db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(name)
			b.FillPercent = 1 // keys only grow
			for _, r := range group {
				seq++
				if err := b.Put(binary.BigEndian.AppendUint64(nil, seq), r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return commit, db.Close, nil
}

const ahead = 4 << 20

// openRaw opens a file to measure the system calls alone: one write of the
// records as they are, and one fdatasync.
func openRaw(path string, durable bool, prepare func(*os.File, int64) error) (func([][]byte) error, func() error, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	if err := prepare(f, 0); err != nil {
		return nil, nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, nil, err
	}
	var buf []byte
	var off int64
	commit := func(group [][]byte) error {
		buf = buf[:0]
		for _, r := range group {
			buf = append(buf, r...)
		}
		if off+int64(len(buf)) > ahead {
			off = 0 // use the same blocks again, so that the file grows only once
			if err := f.Truncate(0); err != nil {
				return err
			}
			if err := prepare(f, 0); err != nil {
				return err
			}
		}
		if _, err := f.WriteAt(buf, off); err != nil {
			return err
		}
		off += int64(len(buf))
		if !durable {
			return nil
		}
		return unix.Fdatasync(int(f.Fd()))
	}
	return commit, f.Close, nil
}

func zeroAhead(f *os.File, off int64) error {
	zeros := make([]byte, 64<<10)
	for ; off < ahead; off += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros, off); err != nil {
			return err
		}
	}
	return nil
}

func allocateAhead(f *os.File, off int64) error {
	return unix.Fallocate(int(f.Fd()), 0, off, ahead-off)
}
