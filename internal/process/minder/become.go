package minder

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/when/later"
)

// person is a user of this machine, as the user database has it now.
type person struct {
	uid, gid int
	groups   []int
	name     string // empty if the database does not know the user
	home     string // empty if there is none
}

// personOf returns the user of an order, as the daemon has looked it up. A daemon of an
// older version has not: then this process does, which asks only the files of the user
// database if it is the static program.
func personOf(order api.MinderOrder) (person, error) {
	a := order.Account
	if a == nil {
		return lookUp(order.User, order.UID)
	}
	return person{uid: order.UID, gid: a.GID, groups: a.Groups, name: a.Name, home: a.Home}, nil
}

// Account looks up a user of this machine for an order. It may take forever: the database
// may be on a server. An error of the database passes; what the database says does not.
func Account(name string, uid int) (api.MinderAccount, error) {
	p, err := lookUp(name, uid)
	return api.MinderAccount{Name: p.name, GID: p.gid, Groups: p.groups, Home: p.home}, err
}

// lookUp finds the user with this name and uid. Only for the user of this process may the
// database have no entry.
func lookUp(name string, uid int) (person, error) {
	own := uid == os.Geteuid()
	if !own && os.Geteuid() != 0 {
		return person{}, fmt.Errorf("the daemon runs as user %d and cannot run programs of user %d", os.Geteuid(), uid)
	}
	find, number := user.Lookup, strconv.Itoa(uid)
	numbered := name == number || own && name == "" // berth calls a user by its number who has no name, or had none in time
	if numbered {
		find, name = user.LookupId, number
	}
	found, err := find(name)
	if numbered && own && err != nil {
		return person{uid: uid, gid: os.Getegid()}, nil
	}
	if unknown, unknownID := user.UnknownUserError(""), user.UnknownUserIdError(0); errors.As(err, &unknown) || errors.As(err, &unknownID) {
		return person{}, fmt.Errorf("the user %s does not exist any more", name)
	}
	if err != nil {
		return person{}, later.Because(fmt.Errorf("look up the user %s: %w", name, err), 0)
	}
	if found.Uid != number {
		return person{}, fmt.Errorf("the user %s had the uid %d when the job was submitted, and has %s now", name, uid, found.Uid)
	}
	p := person{uid: uid, name: found.Username, home: found.HomeDir}
	if p.gid, err = strconv.Atoi(found.Gid); err != nil {
		return person{}, fmt.Errorf("look up the user %s: its group is %q", name, found.Gid)
	}
	groups, err := found.GroupIds()
	if err != nil {
		return person{}, later.Because(fmt.Errorf("look up the groups of the user %s: %w", name, err), 0)
	}
	for _, g := range groups {
		gid, err := strconv.Atoi(g)
		if err != nil {
			return person{}, fmt.Errorf("look up the groups of the user %s: one is %q", name, g)
		}
		p.groups = append(p.groups, gid)
	}
	return p, nil
}

// become makes this process a process of the user, in all its threads and for good. After
// an error the process must end: it may still be root. A process that is not root has its
// user already.
func (p person) become() error {
	changes := os.Geteuid() == 0
	if changes {
		// Since the groups come first, an error leaves root and never a user with the
		// groups of root.
		err := syscall.Setgroups(p.groups)
		if err == nil {
			err = syscall.Setresgid(p.gid, p.gid, p.gid)
		}
		if err == nil {
			err = syscall.Setresuid(p.uid, p.uid, p.uid)
		}
		if err != nil {
			return fmt.Errorf("become user %d: %w", p.uid, err)
		}
	}
	if p.uid != 0 {
		if err := dropCapabilities(); err != nil {
			return fmt.Errorf("become user %d: drop the capabilities: %w", p.uid, err)
		}
	}
	// The kernel has set this anew with the user, as the setting fs.suid_dumpable says.
	if err := hide(); err != nil {
		return err
	}
	return p.check(changes)
}

// hide lets nobody but root inspect this process: its memory, its environment and its
// open files, of which one is the record of the run.
func hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide the minder from its user: %w", err)
	}
	return nil
}

// dropCapabilities drops what a change of the user leaves: the capabilities that programs
// inherit. It is about the thread that starts the command.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
}

// check proves that every thread of this process has the user and, if root has set them,
// its groups, and that none of them can become root again.
func (p person) check(groups bool) error {
	threads, err := process.Proc().Threads(os.Getpid())
	if err != nil {
		return fmt.Errorf("look at the threads of the minder: %w", err)
	}
	for _, thread := range threads {
		status, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/status", thread))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return fmt.Errorf("look at the threads of the minder: %w", err)
		}
		if err := p.checkThread(string(status), groups); err != nil {
			return fmt.Errorf("thread %d of the minder did not become user %d: %w", thread, p.uid, err)
		}
	}
	return nil
}

func (p person) checkThread(status string, groups bool) error {
	fields := map[string][]string{}
	for line := range strings.Lines(status) {
		name, rest, _ := strings.Cut(line, ":")
		fields[name] = strings.Fields(rest)
	}
	same := func(field string, id int) error {
		if got := fields[field]; len(got) != 4 || slices.ContainsFunc(got, func(one string) bool { return one != strconv.Itoa(id) }) {
			return fmt.Errorf("its %s is %q", field, got)
		}
		return nil
	}
	if err := errors.Join(same("Uid", p.uid), same("Gid", p.gid)); err != nil {
		return err
	}
	if want := wordsOf(p.groups); groups && !slices.Equal(slices.Compact(slices.Sorted(slices.Values(fields["Groups"]))), want) {
		return fmt.Errorf("its groups are %q, not %q", fields["Groups"], want)
	}
	if p.uid == 0 {
		return nil
	}
	for _, set := range []string{"CapPrm", "CapEff", "CapAmb"} {
		if got := strings.Join(fields[set], ""); strings.Trim(got, "0") != "" {
			return fmt.Errorf("its %s is %s", set, got)
		}
	}
	return nil
}

// wordsOf returns numbers as text, sorted as text, each once.
func wordsOf(numbers []int) []string {
	words := make([]string, 0, len(numbers))
	for _, n := range numbers {
		words = append(words, strconv.Itoa(n))
	}
	slices.Sort(words)
	return slices.Compact(words)
}
