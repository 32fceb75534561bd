// Package hugepages has the kernel use huge pages while memory moves.
//
// A driver maps the memory that it takes off a device into the process itself. With huge
// pages that takes about two thirds of the time. The kernel has one setting for the whole
// machine, so berth changes it only while it moves memory. It writes down what was set
// before it changes anything, and sets that back afterwards, also after the daemon was
// killed meanwhile. What somebody else sets meanwhile stays, unless it is always.
package hugepages

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/file"
)

const (
	// Path is the setting of the kernel.
	Path = "/sys/kernel/mm/transparent_hugepage/enabled"
	// FileName is the name of the file in the state folder.
	FileName = "hugepages.json"

	always = "always"

	restoreAgain = 10 * time.Second // until it is tried again to set back what was set
)

// note is the content of the file. The setting ends with the boot.
type note struct {
	Boot   string `json:"boot"`
	Before string `json:"before"` // what was set; empty if berth has changed nothing
}

// Keeper changes the setting of the kernel, and sets it back. Open makes one. A nil
// Keeper does nothing.
type Keeper struct {
	path string
	boot string
	log  *slog.Logger
	file *file.State[note]

	mu     sync.Mutex  // guards what follows, and is held while files are written
	users  int         // moves under way
	before string      // what has to be set back; empty if nothing has
	told   string      // what went wrong last
	again  *time.Timer // calls restore; nil unless the last call failed
}

// Open returns a Keeper for the setting at path, and sets back what an earlier daemon of
// this boot has left. State is its file; if it is empty, nothing survives a kill.
func Open(path, state, boot string, log *slog.Logger) (*Keeper, *file.Damage) {
	k := &Keeper{path: path, boot: boot, log: log, file: file.NewState[note](state, file.StateOptions{
		What: "down how huge pages were set", Version: 1, OfBoot: true,
		Lost: "Huge pages may be set to always, by a daemon that was killed while memory moved: look at " + path + ".",
	})}
	damage := k.file.Load(func(n note) error {
		if n.Before != "" && !known(n.Before) {
			return fmt.Errorf("%q is no setting of huge pages", n.Before)
		}
		if n.Boot == boot {
			k.before = n.Before
		}
		return nil
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.restore()
	return k, damage
}

// Hold has the kernel use huge pages until release is called, and until all others who
// hold them have done so too. If that is impossible, it says so in the log.
func (k *Keeper) Hold() (release func()) {
	if k == nil {
		return func() {}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.users++; k.users == 1 {
		k.begin()
	}
	return sync.OnceFunc(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.users--; k.users == 0 {
			k.restore()
		}
	})
}

// begin writes down what is set, and then changes it. The caller holds mu.
func (k *Keeper) begin() {
	now, err := Read(k.path)
	switch {
	case err != nil:
		k.tell("huge pages are left as they are", err)
		return
	case now == always: // it is also that if an earlier change could not be set back
		return
	}
	if err := k.file.SaveUnsynced(note{k.boot, now}); err != nil {
		k.tell("huge pages are left as they are: what was set cannot be written down", err)
		return
	}
	k.before = now
	if err := write(k.path, always); err != nil {
		k.tell("huge pages are left as they are", err)
		return
	}
	k.told = ""
}

// restore sets back what was set, if anything was changed and nobody else has changed it
// since. What fails is tried again, unless memory moves then. The caller holds mu.
func (k *Keeper) restore() {
	if k.before == "" || k.users > 0 {
		return
	}
	now, err := Read(k.path)
	if err == nil && now == always {
		err = write(k.path, k.before)
	}
	if err == nil {
		err = k.file.SaveUnsynced(note{Boot: k.boot})
	}
	if err != nil {
		k.tell("huge pages are not set back to "+k.before, err)
		if k.again == nil {
			k.again = time.AfterFunc(restoreAgain, func() {
				k.mu.Lock()
				defer k.mu.Unlock()
				k.again = nil
				k.restore()
			})
		}
		return
	}
	k.before = ""
}

// tell logs what went wrong, once. The caller holds mu.
func (k *Keeper) tell(what string, err error) {
	if why := what + err.Error(); why != k.told {
		k.told = why
		k.log.Warn(what, "error", err)
	}
}

// Read returns what the kernel says: always, madvise or never.
func Read(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the setting of huge pages: %w", err)
	}
	set := strings.TrimSpace(string(text))
	if _, rest, listed := strings.Cut(set, "["); listed { // the one of several that holds
		set, _, _ = strings.Cut(rest, "]")
	}
	if !known(set) {
		return "", errors.New("read the setting of huge pages: the kernel does not say what is set")
	}
	return set, nil
}

func known(set string) bool { return slices.Contains([]string{always, "madvise", "never"}, set) }

// write changes the setting of the kernel.
func write(path, set string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return fmt.Errorf("set huge pages: %w", err)
	}
	_, err = f.WriteString(set)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("set huge pages: %w", err)
	}
	return nil
}
