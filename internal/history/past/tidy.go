package past

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/berth-gpu/berth/gpu"
)

// tidyEvery is how often files are joined and surplus ones removed.
const tidyEvery = time.Minute

// forgetAfter is how long a series without new samples is remembered.
const forgetAfter = time.Hour

// lookAgain is how long findDamage rests after it read every block and put nothing aside:
// what made somebody suspect damage may come back every minute.
const lookAgain = 10 * time.Minute

// Tidy writes samples that are old enough from memory to files, joins files, looks for
// damage if somebody met it, and measures how much the past takes. Run calls it every
// minute.
func (p *Past) Tidy(now time.Time) {
	p.write.Lock()
	defer p.write.Unlock()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if err := p.tidy(now); err != nil && !errors.Is(err, errPaused) {
		if p.recent == nil || noRoom(err) {
			p.failed(err)
		} else {
			p.counted.suspected.Store(true) // the next call looks for damage
			p.o.Log.Warn("cannot tidy up the past", "error", err)
		}
	}
	p.measure()
}

func (p *Past) tidy(now time.Time) (err error) {
	defer catch(&err)
	if err := p.ready(); err != nil {
		return err
	}
	if !p.pause.since.IsZero() {
		return nil // the next sample shows whether it is over
	}
	if err := p.roomLeft(); err != nil {
		return err
	}
	if now.Sub(p.looked) >= lookAgain && p.counted.suspected.Swap(false) {
		p.findDamage(now)
	}
	t := max(p.recent.newest, p.long.newest)
	if err := p.recall(t); err != nil {
		return err
	}
	p.catalog.expire(t-forgetAfter.Milliseconds(), t)
	for _, s := range []*store{p.recent, p.long} {
		if err := s.compact(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

// findDamage reads every block, and puts the damaged ones aside. The caller
// holds write.
func (p *Past) findDamage(now time.Time) {
	bad, reasons := map[string][]string{}, map[string]error{} // by store; the reason is of the first
	for _, s := range []*store{p.recent, p.long} {
		for _, b := range s.db.Blocks() {
			err := examine(b.Dir())
			if passing(err) {
				p.counted.suspected.Store(true) // the next call looks again
				return
			}
			if err != nil {
				bad[s.name], reasons[s.name] = append(bad[s.name], b.Dir()), cmp.Or(reasons[s.name], err)
			}
		}
	}
	p.looked = now
	if len(bad) == 0 {
		return
	}
	if err := p.shut(); err != nil {
		p.o.Log.Warn("cannot close the past", "error", err)
	}
	for name, why := range reasons {
		if err := p.putAside(name, why, bad[name]...); err != nil {
			p.say(gpu.Warning, "A part of the past cannot be read: %v. It stays where it is: %v", why, err)
			continue
		}
		p.looked = time.Time{}
	}
	if err := p.open(); err != nil {
		p.failed(err)
	}
}

// readAll reads the index and every chunk of a block. The storage compares their
// checksums.
func readAll(b *tsdb.Block) error {
	ctx := context.Background()
	ix, err := b.Index()
	if err != nil {
		return err
	}
	defer ix.Close()
	cr, err := b.Chunks()
	if err != nil {
		return err
	}
	defer cr.Close()
	names, err := ix.LabelNames(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		values, err := ix.LabelValues(ctx, name, nil)
		if err != nil {
			return err
		}
		if _, err := ix.Postings(ctx, name, values...); err != nil {
			return err
		}
	}
	all, err := ix.Postings(ctx, "", "")
	if err != nil {
		return err
	}
	var metas []chunks.Meta
	var builder labels.ScratchBuilder
	for all.Next() {
		if err := ix.Series(all.At(), &builder, &metas); err != nil {
			return err
		}
		for _, m := range metas {
			if _, _, err := cr.ChunkOrIterable(m); err != nil {
				return err
			}
		}
	}
	return all.Err()
}
