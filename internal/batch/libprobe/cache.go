package libprobe

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	berthpy "github.com/berth-gpu/berth/python"
)

// variables lists the parts of an environment that change which library is found or which
// GPUs it sees.
var variables = []string{
	"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD",
	"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES",
	"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "JAX_PLATFORMS",
	"ZE_AFFINITY_MASK", "ZE_ENABLE_PCI_ID_DEVICE_ORDER", "ZE_FLAT_DEVICE_HIERARCHY", "ONEAPI_DEVICE_SELECTOR",
}

// store is the place in a cache for one question.
type store struct {
	folder string // empty if nothing is cached
	key    string
	maxAge time.Duration
}

// entry is a file of the cache. It contains the key, so that a file that was
// renamed or cut short does not pass for an answer.
type entry struct {
	Key    string `json:"key"`
	Report Report `json:"report"`
}

// open returns the place for a question. The key holds everything that the
// answer depends on, this package's own script included.
func (p Prober) open(q question, who identity, libraries []string) store {
	s := store{folder: p.Cache, maxAge: cmp.Or(p.MaxAge, DefaultMaxAge)}
	about, err := os.Stat(q.interpreter)
	if s.folder == "" || err != nil {
		return store{}
	}
	env := map[string]string{}
	for _, name := range variables {
		env[name] = variable(q.env, name)
	}
	text, err := json.Marshal([]any{berthpy.Probe, q.interpreter, about.Size(), about.ModTime().UnixNano(), who, env, libraries})
	if err != nil {
		return store{}
	}
	sum := sha256.Sum256(text)
	s.key = hex.EncodeToString(sum[:])
	return s
}

func (s store) path() string { return filepath.Join(s.folder, "probe-"+s.key+".json") }

// load returns an answer that is young enough. It ignores a file that it cannot
// use.
func (s store) load() (Report, bool) {
	if s.folder == "" {
		return Report{}, false
	}
	about, err := os.Stat(s.path())
	if err != nil || !s.fresh(about) || about.Size() > maxAnswer {
		return Report{}, false
	}
	text, err := os.ReadFile(s.path())
	if err != nil {
		return Report{}, false
	}
	var e entry
	if json.Unmarshal(text, &e) != nil || e.Key != s.key || e.Report.Libraries == nil {
		return Report{}, false
	}
	e.Report.Cached = true
	return e.Report, true
}

// fresh reports whether a file is young enough. A file from the future is not:
// the clock was set.
func (s store) fresh(about os.FileInfo) bool {
	age := time.Since(about.ModTime())
	return age >= 0 && age <= s.maxAge
}

// save keeps an answer in which nothing is wrong. Any other answer is asked for
// again the next time, because somebody may be about to fix it. If the cache
// cannot be written, save does nothing.
func (s store) save(report Report) {
	if s.folder == "" || !report.healthy() {
		return
	}
	text, err := json.Marshal(entry{s.key, report})
	if err != nil || os.MkdirAll(s.folder, 0o700) != nil {
		return
	}
	s.prune()
	file, err := os.CreateTemp(s.folder, "probe-*.part")
	if err != nil {
		return
	}
	_, err = file.Write(text)
	if closed := file.Close(); err != nil || closed != nil || os.Rename(file.Name(), s.path()) != nil {
		_ = os.Remove(file.Name())
	}
}

// prune removes files that are too old, and those that a killed process left.
func (s store) prune() {
	files, _ := os.ReadDir(s.folder)
	for _, file := range files {
		if about, err := file.Info(); err == nil && strings.HasPrefix(file.Name(), "probe-") && !s.fresh(about) {
			_ = os.Remove(filepath.Join(s.folder, file.Name()))
		}
	}
}
