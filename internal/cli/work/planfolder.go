package work

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/file"
)

// runFolder is the folder beside a pipeline file in which berth plan --run keeps a log of
// each run, and which of them have gone well, so that the others can be run again. A nil
// runFolder keeps nothing.
type runFolder struct {
	path string
	lock *os.File

	mu   sync.Mutex // guards done, and is held while it is written
	done map[string]bool
}

// outcomesFile has the names of the runs that have gone well.
const outcomesFile = "done.json"

// errUnderWay refuses a second command for the same file.
var errUnderWay = errors.New("another berth plan --run of this file is under way: wait for it, or interrupt it first")

// runFolderOf returns the folder of a pipeline file: plate.runs for plate.yaml.
func runFolderOf(path string) string {
	return strings.TrimSuffix(path, filepath.Ext(path)) + ".runs"
}

// openRunFolder opens the folder of a pipeline file, and makes it if it is missing. While
// it is open, nobody else opens it: two commands would run the same runs at once.
func openRunFolder(path string) (*runFolder, error) {
	f := &runFolder{path: runFolderOf(path), done: map[string]bool{}}
	if err := os.Mkdir(f.path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	info, err := os.Lstat(f.path)
	if err != nil {
		return nil, err
	}
	if owner, known := info.Sys().(*syscall.Stat_t); !info.IsDir() || !known || int(owner.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s is not a folder of yours", f.path)
	}
	f.lock, err = os.OpenFile(filepath.Join(f.path, "lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.lock.Close()
		return nil, errUnderWay
	}
	text, err := os.ReadFile(filepath.Join(f.path, outcomesFile))
	if err == nil {
		err = json.Unmarshal(text, &f.done)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.done = map[string]bool{} // it is run again rather than left out
	}
	return f, nil
}

func (f *runFolder) close() {
	if f != nil {
		_ = f.lock.Close()
	}
}

// begin forgets what has gone well before, unless only the failed runs are run again.
func (f *runFolder) begin(failed bool) error {
	if f == nil || failed {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = map[string]bool{}
	return f.write()
}

// left takes the runs out of a plan that have gone well, and returns how many remain.
func (f *runFolder) left(plan *api.Plan) (runs int) {
	for i := range plan.Pipelines {
		p := &plan.Pipelines[i]
		var rest []api.PlannedRun
		for _, run := range p.Runs {
			if !f.done[run.Name] {
				rest = append(rest, run)
			}
		}
		p.Runs = rest
		runs += len(rest)
	}
	return runs
}

// ended notes how a run has ended.
func (f *runFolder) ended(run string, well bool) error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if well {
		f.done[run] = true
	} else {
		delete(f.done, run)
	}
	return f.write()
}

// write keeps what has gone well. The caller holds mu, or is alone.
func (f *runFolder) write() error {
	text, err := json.Marshal(f.done)
	if err != nil {
		return err
	}
	return file.ReplacePlain(filepath.Join(f.path, outcomesFile), text)
}

// log returns the path of the log of a run, or "" if there is none.
func (f *runFolder) log(run string) string {
	if f == nil {
		return ""
	}
	var name strings.Builder
	for _, b := range []byte(run) {
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("._-[]", b) >= 0 {
			name.WriteByte(b)
		} else {
			fmt.Fprintf(&name, "%%%02X", b)
		}
	}
	return filepath.Join(f.path, name.String()+".log")
}

// openLog opens the log of a run for writing, in place of that of the last time.
func (f *runFolder) openLog(run string) (io.WriteCloser, error) {
	return os.OpenFile(f.log(run), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
}
