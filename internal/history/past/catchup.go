package past

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/berth-gpu/berth/internal/history/series"
)

// catchUpMost is how much of the recent samples catchUp condenses anew.
const catchUpMost = 90 * time.Minute

// catchUp condenses the recent samples that have no half-minutes: those of the
// half-minute in which the daemon was killed. It collects the samples of the newest
// half-minute, because more may follow. The caller holds write.
func (p *Past) catchUp() error {
	if p.recent.newest == math.MinInt64 || p.recent.newest < p.long.newest {
		return nil
	}
	newest := windowEnd(p.recent.newest)
	from := max(p.long.newest, newest-catchUpMost.Milliseconds())
	q, err := p.recent.db.Querier(from, p.recent.newest)
	if err != nil {
		return fmt.Errorf("read the newest samples: %w", err)
	}
	defer q.Close()
	a := p.long.db.Appender(context.Background())
	set := q.Select(context.Background(), false, nil, labels.MustNewMatcher(labels.MatchNotEqual, labels.MetricName, ""))
	var it chunkenc.Iterator
	for set.Next() {
		one := set.At()
		s := remembered(one.Labels())
		k := p.catalog.find(&s, p.recent.newest)
		if k == nil {
			break
		}
		end := int64(math.MinInt64)
		for it = one.Iterator(it); it.Next() == chunkenc.ValFloat; {
			t, v := it.At()
			if next := windowEnd(t); next != end {
				if err := k.store(a, end); err != nil {
					return errors.Join(err, a.Rollback())
				}
				end = next
			}
			k.window.Add(v)
			k.seen = t
		}
		if end < newest {
			if err := k.store(a, end); err != nil {
				return errors.Join(err, a.Rollback())
			}
		}
		if err := it.Err(); err != nil {
			return errors.Join(fmt.Errorf("read the newest samples: %w", err), a.Rollback())
		}
	}
	if err := errors.Join(set.Err(), a.Commit()); err != nil {
		return fmt.Errorf("condense the newest samples: %w", err)
	}
	p.window = newest
	if from < newest-step {
		p.long.wrote(newest - step)
	}
	return nil
}

// remembered returns a series of the store. Its kind follows from its name: the name of a
// counter ends with _total, and the names of a histogram end with their part.
func remembered(l labels.Labels) series.Sample {
	s := series.Sample{Labels: l.Copy(), Kind: series.Gauge}
	for _, ending := range []string{"_total", "_bucket", "_sum", "_count"} {
		if strings.HasSuffix(l.Get(labels.MetricName), ending) {
			s.Kind = series.Counter
		}
	}
	return s
}
