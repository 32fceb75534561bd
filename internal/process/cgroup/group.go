// Package cgroup puts programs into control groups of their own.
//
// Processes that such a program starts are in its group too. A Group limits how many CPUs
// and how much memory a program uses, and ends all of it at once. Package enclosure keeps
// programs away from GPUs with such groups.
package cgroup

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Limits are what the processes of a group may use together. Zero means no limit.
type Limits struct {
	CPUs   float64
	Memory int64 // in bytes; memory that was swapped out does not count towards more
}

// Group is a control group for one program: a folder in each hierarchy of control groups
// that it needs. In cgroup v2 there is one hierarchy.
type Group []string

// period is the time in which the kernel counts the use of CPUs, in microseconds.
const period = 100_000

// setting is a file of a group, and what to write there.
type setting struct {
	file, value string
	may         bool // the file may be missing
}

// controller describes how a group limits something.
type controller struct {
	name    string
	wanted  func(Limits) bool
	v1, v2  func(Limits) []setting
	whatFor string
}

var controllers = []controller{
	{
		name: "memory", whatFor: "memory", wanted: func(l Limits) bool { return l.Memory > 0 },
		v2: func(l Limits) []setting {
			return []setting{{file: "memory.max", value: strconv.FormatInt(l.Memory, 10)}, {"memory.swap.max", "0", true}}
		},
		v1: func(l Limits) []setting {
			most := strconv.FormatInt(l.Memory, 10)
			return []setting{{file: "memory.limit_in_bytes", value: most}, {"memory.memsw.limit_in_bytes", most, true}}
		},
	},
	{
		name: "cpu", whatFor: "CPUs", wanted: func(l Limits) bool { return l.CPUs > 0 },
		v2: func(l Limits) []setting {
			return []setting{{file: "cpu.max", value: fmt.Sprintf("%d %d", quota(l), period)}}
		},
		v1: func(l Limits) []setting {
			return []setting{{file: "cpu.cfs_period_us", value: strconv.Itoa(period)}, {file: "cpu.cfs_quota_us", value: strconv.Itoa(quota(l))}}
		},
	},
}

// quota returns how many microseconds of CPU time a group may use in a period. The kernel
// refuses less than a thousand.
func quota(l Limits) int { return max(int(l.CPUs*period), 1000) }

// Make makes a group with limits, for a program that is started in it or enters it by
// itself. The group lies beside or below that of this process, so limits around this
// process hold for it too. Without limits it is a group of cgroup v2.
func Make(name string, l Limits) (Group, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	return makeGroup(string(mounts), string(own), name, l)
}

func makeGroup(mounts, own, name string, l Limits) (made Group, err error) {
	defer func() {
		if err != nil {
			_ = made.Remove()
			made = nil
		}
	}()
	var united []controller // those of cgroup v2
	for _, c := range controllers {
		if !c.wanted(l) {
			continue
		}
		m, separate := findController(mounts, c.name)
		if !separate {
			united = append(united, c)
			continue
		}
		outer, err := m.folderOf(own, c.name)
		if err != nil {
			return made, fmt.Errorf("limit %s: %w", c.whatFor, err)
		}
		if err := made.add(filepath.Join(outer, name), c.v1(l)); err != nil {
			return made, fmt.Errorf("limit %s: %w", c.whatFor, Explain(err))
		}
	}
	m, err := parseMounts(mounts)
	if err != nil && len(united) == 0 && len(made) > 0 {
		return made, nil // cgroup v1 alone
	}
	if err != nil {
		return made, err
	}
	outer, err := m.folder(own)
	if err != nil {
		return made, err
	}
	var set []setting
	for _, c := range united {
		set = append(set, c.v2(l)...)
	}
	if outer, err = enable(m.point, outer, united); err != nil {
		return made, err
	}
	if err := made.add(filepath.Join(outer, name), set); err != nil {
		return made, Explain(err)
	}
	return made, nil
}

// enable returns the group nearest to a group, upwards, whose subgroups have these
// controllers or can be given them. A group with processes cannot give any, except the
// outermost one of the machine. An error is of the nearest group, because what to do
// about it is said there.
func enable(top, outer string, wanted []controller) (string, error) {
	if len(wanted) == 0 {
		return outer, nil
	}
	var nearest error
	for folder := outer; len(folder) >= len(top); folder = filepath.Dir(folder) {
		err := give(folder, wanted)
		if err == nil {
			return folder, nil
		}
		nearest = cmp.Or(nearest, err)
	}
	return "", nearest
}

// give gives the subgroups of a group these controllers: all of them, or none, which is
// what the kernel makes of one write.
func give(folder string, wanted []controller) error {
	var lacks, whatFor []string
	for _, c := range wanted {
		can, err := words(filepath.Join(folder, "cgroup.controllers"))
		if err != nil {
			return err
		}
		if !slices.Contains(can, c.name) {
			return fmt.Errorf("limit %s: the control group %s has no controller %s: the kernel was started without it, or a group around it does not pass it on", c.whatFor, folder, c.name)
		}
		gives, err := words(filepath.Join(folder, "cgroup.subtree_control"))
		if err != nil || slices.Contains(gives, c.name) {
			if err != nil {
				return err
			}
			continue
		}
		lacks, whatFor = append(lacks, "+"+c.name), append(whatFor, c.whatFor)
	}
	if len(lacks) == 0 {
		return nil
	}
	if err := Write(filepath.Join(folder, "cgroup.subtree_control"), strings.Join(lacks, " ")); err != nil {
		return fmt.Errorf("limit %s: %w", strings.Join(whatFor, " and "), Explain(err))
	}
	return nil
}

func words(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	return strings.Fields(string(text)), err
}

// NoFilters is the remedy for a kernel that cannot filter devices.
const NoFilters = "the kernel has no device filters (CONFIG_CGROUP_BPF)"

// Explain adds the remedy to an error of the kernel.
func Explain(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: the daemon needs root with CAP_BPF, CAP_NET_ADMIN and CAP_DAC_OVERRIDE, which containers and units often take away", err)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w: the control groups are mounted read-only, as in most containers; run the daemon outside of it, or with a writable /sys/fs/cgroup (ProtectControlGroups=no in its unit)", err)
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: %s", err, NoFilters)
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: the control group of the process hands out controllers or has threads of its own, so processes cannot be in groups below it; start the program from another unit or session", err)
	}
	return err
}

// Write writes a setting with one write, as the kernel wants it.
func Write(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// add makes one of the folders of a group, and sets its limits. A folder that is left from
// earlier is used again, and counts as made now: Sweep must leave it to the program that
// will be started in it.
func (g *Group) add(folder string, settings []setting) error {
	err := os.Mkdir(folder, 0o755)
	if errors.Is(err, fs.ErrExist) {
		now := time.Now()
		_ = os.Chtimes(folder, now, now) // whoever may not do that may still use it
	} else if err != nil {
		return fmt.Errorf("make a control group: %w", err)
	}
	*g = append(*g, folder)
	for _, s := range settings {
		if err := Write(filepath.Join(folder, s.file), s.value); err != nil && !(s.may && errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}

var tries atomic.Int64

// CanLimit returns nil if this process can make groups that limit CPUs and memory.
// Otherwise the error says why not.
func CanLimit() error {
	made, err := Make(fmt.Sprintf("berth-try-%d-%d", os.Getpid(), tries.Add(1)), Limits{CPUs: 1, Memory: 1 << 30})
	return errors.Join(err, made.Remove())
}

// Missing returns which of the controllers for limits a group of cgroup v2 does not have.
// The group is a path below the outermost one, which is empty.
func Missing(within string) ([]string, error) {
	m, err := findMount()
	if err != nil {
		return nil, err
	}
	has, err := words(filepath.Join(m.point, within, "cgroup.controllers"))
	var missing []string
	for _, c := range controllers {
		if !slices.Contains(has, c.name) {
			missing = append(missing, c.name)
		}
	}
	return missing, err
}

// Open opens the folder of the group in cgroup v2, in which a process can be started. That
// is far quicker than to enter it. It returns nil if the group has no such folder.
func (g Group) Open() *os.File {
	for _, folder := range g {
		var about unix.Statfs_t
		if unix.Statfs(folder, &about) != nil || about.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		if f, err := os.Open(folder); err == nil {
			return f
		}
	}
	return nil
}

// Enter moves this process into the group. It leaves out folders in which the process is:
// the kernel takes some ten milliseconds for a move, even if nothing changes.
func (g Group) Enter() error {
	self := strconv.Itoa(os.Getpid())
	for _, folder := range g {
		list := filepath.Join(folder, "cgroup.procs")
		if there, err := words(list); err == nil && slices.Contains(there, self) {
			continue
		}
		if err := Write(list, self); err != nil {
			return fmt.Errorf("enter the control group: %w", Explain(err))
		}
	}
	return nil
}

// Remove kills every process in the group, and removes it. It takes a moment until a
// killed process is gone; if one is not gone by then, Remove returns an error.
func (g Group) Remove() error {
	const patience, pause = 2 * time.Second, 5 * time.Millisecond
	var left error
	for _, folder := range g {
		for deadline := time.Now().Add(patience); ; time.Sleep(pause) {
			if left = empty(folder); left == nil || !errors.Is(left, unix.EBUSY) || time.Now().After(deadline) {
				break
			}
		}
		if left != nil {
			return fmt.Errorf("remove the control group: %w", left)
		}
	}
	return nil
}

// empty kills what is in a folder, and removes it with the folders below it.
func empty(folder string) error {
	below, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if Write(filepath.Join(folder, "cgroup.kill"), "1") != nil { // cgroup v1, or an old kernel
		pids, _ := words(filepath.Join(folder, "cgroup.procs"))
		for _, text := range pids {
			if pid, err := strconv.Atoi(text); err == nil && pid > 0 {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
	for _, e := range below {
		if e.IsDir() {
			if err := empty(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Killed returns how many processes the kernel has killed for lack of memory in the group
// of this process whose name begins with a prefix. It returns 0 if there is no such group.
func Killed(prefix string) int {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	own, _ := os.ReadFile("/proc/self/cgroup")
	m, separate := findController(string(mounts), "memory")
	file, kind := "memory.oom_control", "memory"
	if !separate {
		var err error
		if m, err = parseMounts(string(mounts)); err != nil {
			return 0
		}
		file, kind = "memory.events", ""
	}
	folder, err := m.folderOf(string(own), kind)
	for ; err == nil && len(folder) > len(m.point); folder = filepath.Dir(folder) {
		if strings.HasPrefix(filepath.Base(folder), prefix) {
			return countKilled(filepath.Join(folder, file))
		}
	}
	return 0
}

func countKilled(file string) int {
	text, _ := os.ReadFile(file) // without one nothing is known
	for line := range bytes.Lines(text) {
		if count, is := strings.CutPrefix(string(bytes.TrimSpace(line)), "oom_kill "); is {
			n, _ := strconv.Atoi(count)
			return n
		}
	}
	return 0
}
