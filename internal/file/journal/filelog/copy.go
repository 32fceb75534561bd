package filelog

import (
	"fmt"
	"slices"
)

// Copy hands the files of journals to take as they are at one moment, which is the same
// for all of them: whoever opens copies of these files finds every entry that was appended
// before the moment, and none that came later. The moment is the call of at. Appends wait
// only for at, and compactions also for take.
func Copy(logs []*Log, at func() error, take func(l *Log, name string, data []byte) error) error {
	for _, l := range logs {
		l.compacting.Lock() // no file is removed
		defer l.compacting.Unlock()
	}
	type moment struct {
		contents
		synced int64
		tail   []byte
	}
	moments := make([]moment, len(logs))
	freeze := func() error {
		for _, l := range logs {
			l.mu.Lock()
			defer l.mu.Unlock()
		}
		for i, l := range logs {
			moments[i] = moment{contents{slices.Clone(l.segments), slices.Clone(l.snapshots), nil}, l.synced, slices.Clone(l.tail)}
		}
		return at()
	}
	if err := freeze(); err != nil {
		return err
	}
	for i, m := range moments {
		var names []string
		for _, n := range m.snapshots[max(0, len(m.snapshots)-1):] {
			names = append(names, snapshotName(n))
		}
		for _, n := range m.segments {
			names = append(names, segmentName(n))
		}
		for n, name := range names {
			data, err := logs[i].disk.ReadFile(name)
			if err != nil {
				return fmt.Errorf("journal: copy %s: %w", name, err)
			}
			if n == len(names)-1 { // what follows was appended later, or failed
				if int64(len(data)) < m.synced {
					return fmt.Errorf("journal: copy %s: it is shorter than it was", name)
				}
				data = append(data[:m.synced:m.synced], m.tail...)
			}
			if err := take(logs[i], name, data); err != nil {
				return err
			}
		}
	}
	return nil
}
