package past

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/prometheus/tsdb"

	"github.com/berth-gpu/berth/gpu"
)

// aheadName is the folder of blocks that lie ahead of the clock: the clock was
// wrong when they were made, or it is wrong now. They come back when the clock
// has passed them.
const aheadName = "ahead"

// setClock makes the stores accept samples of a time. The storage accepts none that is
// much older than its newest, so setClock takes out samples ahead of the clock. The
// caller holds write.
func (p *Past) setClock(t int64) error {
	newest := max(p.recent.newest, p.long.newest)
	if newest == math.MinInt64 {
		return nil
	}
	span := late.Milliseconds()
	switch {
	case t > newest && t-newest > span: // the clock jumped years ahead, or the machine was off for long
		return p.recall(t)
	case newest > t && newest-t >= span-2*step:
		return p.rewind(t, newest)
	}
	return nil
}

// rewind takes the samples ahead of a time out of the stores.
func (p *Past) rewind(t, newest int64) error {
	by := (time.Duration(newest-t) * time.Millisecond).Round(time.Second)
	if newest-t > int64(math.MaxInt64/time.Millisecond) {
		by = math.MaxInt64
	}
	p.keepOut()
	var errs []error
	for _, s := range []*store{p.recent, p.long} {
		errs = append(errs, s.settle(t), s.close())
	}
	p.recent, p.long, p.window = nil, nil, 0
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("take out what lies ahead of the clock: %w", err)
	}
	moved := 0
	for _, k := range []kind{recentKind, longKind} {
		n, err := p.shelve(k, t)
		if err != nil {
			return err
		}
		moved += n
	}
	if err := p.open(); err != nil {
		return err
	}
	p.say(gpu.Warning, "The clock went back by %v. The past goes on with the new time; %d blocks with times that are yet to come wait until the clock has passed them", by, moved)
	return nil
}

// settle writes all samples from memory to blocks: one block up to a time, and one of the
// samples ahead of it.
func (s *store) settle(t int64) error {
	head := s.db.Head()
	if head.NumSeries() == 0 {
		return nil
	}
	if err := s.db.CompactOOOHead(context.Background()); err != nil {
		return err
	}
	from, to := head.MinTime(), head.MaxTime()
	if from <= t && t < to {
		if err := s.db.CompactHead(tsdb.NewRangeHead(head, from, t)); err != nil {
			return err
		}
		from = t + 1
	}
	if from > to {
		return nil
	}
	return s.db.CompactHead(tsdb.NewRangeHead(head, from, to))
}

// shelve moves away the blocks of a store that end much later than a time, and removes
// the log, whose samples the blocks now hold, with its lengths.
func (p *Past) shelve(k kind, t int64) (moved int, err error) {
	folder := p.path(k.name)
	for _, name := range []string{sizesName, "wal", "wbl", "chunks_head"} {
		if err := os.RemoveAll(filepath.Join(folder, name)); err != nil {
			return 0, err
		}
	}
	blocks, err := blocksIn(folder)
	if err != nil {
		return 0, err
	}
	for _, b := range blocks {
		if b.to-t < late.Milliseconds()/2 {
			continue
		}
		if err := os.MkdirAll(p.path(aheadName, k.name), 0o700); err != nil {
			return moved, err
		}
		if err := os.Rename(b.dir, p.path(aheadName, k.name, filepath.Base(b.dir))); err != nil {
			return moved, fmt.Errorf("take out what lies ahead of the clock: %w", err)
		}
		moved++
	}
	return moved, nil
}

// recall brings back the blocks that the clock has passed. The storage finds them within
// a minute. The caller holds write.
func (p *Past) recall(t int64) error {
	for _, k := range []kind{recentKind, longKind} {
		blocks, err := blocksIn(p.path(aheadName, k.name))
		if err != nil {
			return err
		}
		for _, b := range blocks {
			if b.to > t {
				continue
			}
			if err := os.Rename(b.dir, p.path(k.name, filepath.Base(b.dir))); err != nil {
				return fmt.Errorf("bring back what lay ahead of the clock: %w", err)
			}
			p.o.Log.Info("what lay ahead of the clock is part of the past again", "store", k.name, "from", time.UnixMilli(b.from), "to", time.UnixMilli(b.to))
		}
	}
	return nil
}
