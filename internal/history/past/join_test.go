package past

import (
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

func (p point) ST() int64                     { return 0 }
func (p point) T() int64                      { return p.t }
func (p point) F() float64                    { return p.v }
func (p point) H() *histogram.Histogram       { return nil }
func (p point) FH() *histogram.FloatHistogram { return nil }
func (p point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample           { return p }

// TestJoin compares join with the storage's own way to chain series, over pieces of any
// length that come in any order.
func TestJoin(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	name := labels.FromStrings(labels.MetricName, "x")
	var ours, theirs chunkenc.Iterator
	for range 500 {
		var pieces, plain []storage.Series
		at := int64(0)
		for range 1 + random.IntN(6) {
			var list []chunks.Sample
			for range random.IntN(5) {
				at += 1 + random.Int64N(10)
				list = append(list, point{at, random.Float64()})
			}
			at++
			s := storage.NewListSeries(name, list)
			plain, pieces = append(plain, s), append(pieces, &pieceSeries{s, at})
		}
		random.Shuffle(len(pieces), func(i, k int) { pieces[i], pieces[k] = pieces[k], pieces[i] })
		ours, theirs = join(pieces...).Iterator(ours), storage.ChainedSeriesMerge(plain...).Iterator(theirs)
		for target := int64(0); ; {
			var got, want chunkenc.ValueType
			if random.IntN(2) == 0 {
				got, want = ours.Next(), theirs.Next()
			} else {
				target += random.Int64N(30)
				got, want = ours.Seek(target), theirs.Seek(target)
			}
			if got != want {
				t.Fatalf("found %v, and the storage %v", got, want)
			}
			if got == chunkenc.ValNone {
				break
			}
			gotT, gotV := ours.At()
			wantT, wantV := theirs.At()
			if gotT != wantT || gotV != wantV || ours.AtT() != wantT || ours.AtST() != theirs.AtST() {
				t.Fatalf("found %v at %d, and the storage %v at %d", gotV, gotT, wantV, wantT)
			}
		}
		if err := ours.Err(); err != nil {
			t.Fatal(err)
		}
	}
}
