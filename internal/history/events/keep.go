package events

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/file"
)

const (
	// writeAfter is the time between two writes, unless a warning comes.
	writeAfter = time.Second
	retryWrite = 10 * time.Second

	// After this much was appended, a new file with the kept events replaces the file.
	tailEvents = 4096
	tailBytes  = 4 << 20
)

// Keep writes the events to a folder, for Recall of the next daemon, until ctx ends. Then
// it writes the rest and records that nothing is missing. It reads like any reader: no
// publisher waits for the disk, and while nothing happens, Keep sleeps.
//
// Keep writes a single event at once, and also warnings and worse, with all events before
// them. Of a stream of notes, a daemon that is killed loses the last second. Keep syncs
// warnings before the next write. Other events are lost if the machine loses power within
// the half minute that the kernel takes to write them.
//
// While the folder cannot be written, Keep tries every 10 seconds. It calls complain once
// until it succeeds.
func (l *Log) Keep(ctx context.Context, folder file.Folder, complain func(error)) {
	w := &writer{log: l, folder: folder}
	defer func() { w.to.Close() }()
	var failed error
	for last := (time.Time{}); ; {
		more, err := w.write()
		if err != nil && failed == nil {
			complain(fmt.Errorf("cannot write events for the next start: %w; berth tries again every %v", err, retryWrite))
		}
		failed = err
		if failed != nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(retryWrite):
			}
			continue
		}
		last = time.Now()
		select {
		case <-ctx.Done():
			_, err = w.write() // events that came since
			w.finish(err)
			return
		case <-more:
		}
		l.group(ctx, last)
	}
}

// group waits until a second has passed since the last write, or a warning comes.
func (l *Log) group(ctx context.Context, last time.Time) {
	left := writeAfter - time.Since(last)
	if left <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-l.urgent:
	case <-time.After(left):
	}
}

// writer appends the events of a log to a file.
type writer struct {
	log    *Log
	folder file.Folder

	to     *file.Lines // the next write begins another file if it does not stand
	after  uint64      // id of the last event in it; 0 if there is none
	events int         // appended since the file was begun
	bytes  int
}

// write writes the new events, and returns a channel that is closed when there are more.
func (w *writer) write() (<-chan struct{}, error) {
	select {
	case <-w.log.urgent: // the events to read now include the warning
	default:
	}
	if !w.to.Stands() || w.events > tailEvents || w.bytes > tailBytes {
		return w.begin()
	}
	entries, more := w.log.Entries(w.after, math.MaxInt)
	text, urgent := lines(nil, entries)
	if len(text) == 0 {
		return more, nil
	}
	if err := w.append(text, urgent); err != nil {
		w.to.Close() // its last line may be cut; the next file is whole
		return more, err
	}
	w.after = entries[len(entries)-1].ID()
	w.events += len(entries)
	w.bytes += len(text)
	return more, nil
}

// lines appends events as lines, and reports whether any is a warning or worse.
func lines(text []byte, entries []*Entry) (_ []byte, urgent bool) {
	for _, entry := range entries {
		if entry.event.Code == gpu.EventGap { // Entries made it, because the disk was slow
			continue
		}
		text = appendLine(text, entry.Event())
		urgent = urgent || entry.event.Severity.AtLeast(gpu.Warning)
	}
	return text, urgent
}

func (w *writer) append(text []byte, durable bool) error {
	err := w.to.Append(text)
	if err == nil && durable {
		err = w.to.Sync(func() {})
	}
	return err
}

// begin begins a file with all kept events, and removes the others.
func (w *writer) begin() (<-chan struct{}, error) {
	w.to.Close()
	entries, more := w.log.Entries(0, math.MaxInt)
	text, _ := lines([]byte(opening), entries)
	number, _, err := newest(w.folder)
	if err != nil {
		return more, err
	}
	name := names.Name(number + 1)
	if err := w.tidy(name); err != nil {
		return more, err
	}
	if err := file.Put(w.folder, name, partial, text, true); err != nil {
		return more, err
	}
	if w.to, err = file.OpenLines(w.folder, name); err != nil {
		return more, err
	}
	w.after, w.events, w.bytes = 0, 0, 0
	if len(entries) > 0 {
		w.after = entries[len(entries)-1].ID()
	}
	return more, w.tidy(name)
}

// tidy removes all files but the newest, and those that are not whole. If the newest does
// not exist yet, the one before it stays.
func (w *writer) tidy(keep string) error {
	all, err := file.Names(w.folder)
	if err != nil {
		return err
	}
	there := slices.Contains(all, keep)
	var failed []error
	for _, name := range all {
		_, ours := names.Of(name)
		_, half := names.Of(strings.TrimSuffix(name, partial))
		if half && !ours || ours && there && name != keep {
			failed = append(failed, w.folder.Remove(name))
		}
	}
	return errors.Join(failed...)
}

// finish records that no event is missing, unless err says otherwise.
func (w *writer) finish(err error) {
	if err == nil && w.to.Stands() {
		_ = w.append([]byte(closing), true) // if it fails, readers get a gap
	}
}
