package outcome

// set holds record numbers. They arrive nearly in order, so whole pages fill up
// and then need no memory. A page with gaps keeps a bit for each record.
type set struct {
	full  int64           // all pages below this one are full
	pages map[int64]*page // pages with gaps
	later map[int64]bool  // full pages above full
	count int64           // number of records
}

const pageBits = 1 << 16

type page struct {
	bits  [pageBits / 64]uint64
	count int
}

func newSet() *set { return &set{pages: map[int64]*page{}, later: map[int64]bool{}} }

func (s *set) has(i int64) bool {
	n := i / pageBits
	if n < s.full || s.later[n] {
		return true
	}
	p := s.pages[n]
	return p != nil && p.bits[i%pageBits/64]>>(i%64)&1 == 1
}

// add adds a record, and reports whether it was not there before.
func (s *set) add(i int64) bool {
	if s.has(i) {
		return false
	}
	n := i / pageBits
	p := s.pages[n]
	if p == nil {
		p = &page{}
		s.pages[n] = p
	}
	p.bits[i%pageBits/64] |= 1 << (i % 64)
	p.count++
	s.count++
	if p.count == pageBits {
		delete(s.pages, n)
		s.later[n] = true
		for s.later[s.full] {
			delete(s.later, s.full)
			s.full++
		}
	}
	return true
}
