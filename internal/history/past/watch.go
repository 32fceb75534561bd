package past

import (
	"context"
	"errors"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// watched opens a block for a query. It makes the store look for damage when a chunk
// cannot be read.
func (p *Past) watched(b tsdb.BlockReader, from, to int64) (storage.Querier, error) {
	if block, is := b.(*tsdb.Block); is {
		b = watchedBlock{block, p}
	}
	return tsdb.NewBlockQuerier(b, from, to)
}

type watchedBlock struct {
	*tsdb.Block
	p *Past
}

// Chunks returns a reader of the chunks.
func (b watchedBlock) Chunks() (tsdb.ChunkReader, error) {
	r, err := b.Block.Chunks()
	return watchedChunks{r, b.p}, err
}

type watchedChunks struct {
	tsdb.ChunkReader
	p *Past
}

// ChunkOrIterable returns a chunk.
func (r watchedChunks) ChunkOrIterable(m chunks.Meta) (c chunkenc.Chunk, i chunkenc.Iterable, err error) {
	err = r.p.try(func() error {
		c, i, err = r.ChunkReader.ChunkOrIterable(m)
		return err
	})
	return c, i, err
}

// watchedSet makes the store look for damage when an index cannot be read.
type watchedSet struct {
	storage.SeriesSet
	p   *Past
	err error
}

// Next moves to the next series.
func (s *watchedSet) Next() (more bool) {
	if s.err == nil {
		s.err = s.p.try(func() error {
			if more = s.SeriesSet.Next(); more {
				return nil
			}
			return s.SeriesSet.Err()
		})
	}
	return more
}

// Err returns why there are no more series, or nil if there are none left.
func (s *watchedSet) Err() error { return s.err }

// try calls a function that reads the storage, and turns its panic into an error: a query
// engine does not catch all of them. On an error, try makes Run look for damage, unless the
// reader only left.
func (p *Past) try(read func() error) (err error) {
	defer func() {
		if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			p.suspect()
		}
	}()
	defer catch(&err)
	return read()
}

// suspect makes Run look for damaged blocks.
func (p *Past) suspect() {
	p.counted.suspected.Store(true)
	p.nudge()
}

// nudge makes Run look at the stores soon.
func (p *Past) nudge() {
	select {
	case p.changed <- struct{}{}:
	default: // Run is about to look anyway
	}
}
