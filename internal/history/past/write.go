package past

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/prometheus/storage"

	"github.com/berth-gpu/berth/internal/history/series"
)

// Write stores samples and waits for the disk, unlike Append. It returns why they were
// not stored.
func (p *Past) Write(at time.Time, list []series.Sample) error {
	return p.WriteAll(func(yield func(time.Time, []series.Sample) bool) { yield(at, list) })
}

// WriteAll is Write for moments that are long over. What is appended meanwhile waits: if it
// came between, the next moment would be taken for a clock that went back.
func (p *Past) WriteAll(moments iter.Seq2[time.Time, []series.Sample]) (failed error) {
	p.write.Lock()
	defer p.write.Unlock()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for at, list := range moments {
		if err := p.store(at, list); err != nil {
			p.counted.dropped.Add(uint64(len(list)))
			p.failed(err)
			failed = err
		}
	}
	return failed
}

// store stores samples. The caller holds write.
func (p *Past) store(at time.Time, list []series.Sample) (err error) {
	defer catch(&err)
	if err := p.ready(); err != nil {
		return err
	}
	t := at.UnixMilli()
	if err := p.setClock(t); err != nil {
		return err
	}
	if end := windowEnd(t); end > p.window || p.window-end > lateWindows*step { // else more may come for the half-minute that is being collected
		if err := p.condense(); err != nil {
			return err
		}
		p.window = end
	}
	a := p.recent.db.Appender(context.Background())
	stored := 0
	for i := range list {
		l := p.catalog.find(&list[i], t)
		if l == nil {
			p.counted.dropped.Add(1)
			continue
		}
		at := t - max(list[i].Before, 0).Milliseconds()
		ref, err := a.Append(l.whole.ref, l.whole.labels, at, list[i].Value)
		switch {
		case err == nil:
			l.whole.ref = ref
			l.add(windowEnd(at), p.window, list[i].Value)
			stored++
		case refused(err):
			p.counted.dropped.Add(1)
		default:
			return errors.Join(fmt.Errorf("store a sample: %w", err), a.Rollback())
		}
	}
	if err := a.Commit(); err != nil {
		return fmt.Errorf("store samples: %w", err)
	}
	p.recent.wrote(t)
	p.counted.samples.Add(uint64(stored))
	p.counted.written.Store(time.Now())
	p.goesOn()
	return nil
}

// condense stores the half-minute that has ended, and leaves none that is being collected.
// If it fails, catchUp reads the samples again. The caller holds write.
func (p *Past) condense() error {
	end := p.window
	if end == 0 {
		return nil
	}
	p.window = 0
	a := p.long.db.Appender(context.Background())
	for _, k := range p.catalog.table {
		if err := k.store(a, end); err != nil {
			return errors.Join(err, a.Rollback())
		}
	}
	if err := a.Commit(); err != nil {
		return fmt.Errorf("store half-minutes: %w", err)
	}
	p.long.wrote(end)
	return nil
}

// add adds a sample of the half-minute with an end, while that with the end now is being
// collected.
func (k *known) add(end, now int64, v float64) {
	if end == now {
		k.window.Add(v)
		return
	}
	if n := len(k.late); n == 0 || k.late[n-1].end != end {
		k.late = append(k.late, lateWindow{end: end})
	}
	k.late[len(k.late)-1].window.Add(v)
}

// store closes the half-minute of a series that ended at a time, and those before it of
// samples that came late, and stores their content.
func (k *known) store(a storage.Appender, end int64) error {
	for i := range k.late {
		if err := k.put(a, k.late[i].end, k.late[i].window.Close()); err != nil {
			return err
		}
	}
	k.late = nil
	return k.put(a, end, k.window.Close())
}

// put stores the content of a half-minute.
func (k *known) put(a storage.Appender, end int64, h half) error {
	if h.Empty {
		return nil
	}
	if h.Stale {
		h.Average, h.Least, h.Most, h.Last = series.Stale(), series.Stale(), series.Stale(), series.Stale()
	}
	if k.last {
		return k.half.append(a, end, h.Last)
	}
	return errors.Join(k.half.append(a, end, h.Average), k.least.append(a, end, h.Least), k.most.append(a, end, h.Most))
}

// append appends a point. It skips a point that the store refuses because of its time.
func (s *stored) append(a storage.Appender, t int64, v float64) error {
	ref, err := a.Append(s.ref, s.labels, t, v)
	if err == nil {
		s.ref = ref
	} else if !refused(err) {
		return fmt.Errorf("store a half-minute: %w", err)
	}
	return nil
}

// refused reports whether the store refuses a sample because of its time, which is not a
// fault of the disk.
func refused(err error) bool {
	return errors.Is(err, storage.ErrOutOfBounds) || errors.Is(err, storage.ErrOutOfOrderSample) ||
		errors.Is(err, storage.ErrTooOldSample) || errors.Is(err, storage.ErrDuplicateSampleForTimestamp)
}

// catch turns a panic of the storage into an error: a file that shrinks while it is
// mapped into memory, or an unexpected fault, must not end the daemon. Use it with defer.
func catch(err *error) {
	if r := recover(); r != nil {
		stack, _, _ := strings.Cut(string(debug.Stack()), "\n\n")
		why, is := r.(error)
		if !is {
			why = fmt.Errorf("%v", r)
		}
		*err = fmt.Errorf("the storage failed: %w (%.400s)", why, stack)
	}
}
