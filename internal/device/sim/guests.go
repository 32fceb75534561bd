package sim

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// guests are real processes that use simulated memory. A process writes the file
// DIR/UUID/PID with
//
//	{"memory_mb": 4096, "load": 50, "start_time": 123456}
//
// best under another name first and then renamed, and may rewrite it at any
// time. Load is in percent; start_time is field 22 of /proc/PID/stat. The process
// counts until the file is gone or the process is. Without start_time the pid is
// taken to belong to the process that had it at first sight, so that a recycled
// pid does not count. What cannot be read counts as absent, because a process may
// be in the middle of writing, or of dying.
type guests struct {
	dir  string
	born map[int]int64 // start time of each guest, from when it was first seen
}

// newGuests returns nil, which never has a guest, if there is no directory.
func newGuests(dir, uuid string) *guests {
	if dir == "" {
		return nil
	}
	return &guests{dir: filepath.Join(dir, uuid), born: map[int]int64{}}
}

// visiting lists the guests that are there now.
func (g *guests) visiting() []running {
	if g == nil {
		return nil
	}
	entries, _ := os.ReadDir(g.dir) // not there yet: nobody is
	var list []running
	seen := map[int]int64{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid <= 0 {
			continue
		}
		name, born := living(pid)
		file, ok := g.read(pid)
		seen[pid] = born
		if first, known := g.born[pid]; known {
			seen[pid] = first
		}
		if ok && born != 0 && born == cmp.Or(file.StartTime, seen[pid]) {
			list = append(list, running{pid, name, file.Memory, file.Load / 100})
		}
	}
	g.born = seen
	return list
}

type guestFile struct {
	Memory    gpu.MiB `json:"memory_mb"`
	Load      float64 `json:"load"`
	StartTime int64   `json:"start_time"`
}

func (g *guests) read(pid int) (guestFile, bool) {
	var f guestFile
	text, err := os.ReadFile(filepath.Join(g.dir, strconv.Itoa(pid)))
	ok := err == nil && json.Unmarshal(text, &f) == nil &&
		f.Memory >= 0 && f.Memory <= maxMemory && f.Load >= 0 && f.Load <= 100
	return f, ok
}

// living returns the name and the start time of a process; zero if it is not
// there or is a zombie, which holds no memory any more.
func living(pid int) (name string, born int64) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", 0
	}
	// "PID (NAME) STATE …": the name may hold spaces and parentheses itself.
	open, end := strings.IndexByte(string(stat), '('), strings.LastIndexByte(string(stat), ')')
	if open < 0 || end < open {
		return "", 0
	}
	fields := strings.Fields(string(stat[end+1:]))
	const state, startTime = 0, 19 // fields 3 and 22 of proc(5)
	if len(fields) <= startTime || strings.Contains("ZX", fields[state]) {
		return "", 0
	}
	born, _ = strconv.ParseInt(fields[startTime], 10, 64)
	return string(stat[open+1 : end]), born
}
