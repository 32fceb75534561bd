package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-gpu/berth/internal/process/kinship"
)

// uidsVariable has this program become other users and wait, instead of testing.
const uidsVariable = "BERTH_TEST_UIDS"

// becomeUsers takes the real, effective and saved uid that the environment names,
// and waits until its input ends.
func becomeUsers(said string) int {
	var u kinship.UIDs
	if _, err := fmt.Sscanf(said, "%d %d %d", &u.Real, &u.Effective, &u.Saved); err != nil {
		return 2
	}
	if err := syscall.Setresuid(u.Real, u.Effective, u.Saved); err != nil {
		return 3
	}
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return 0
}

// as starts a process with these user ids.
func as(t *testing.T, u kinship.UIDs) ID {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %d", uidsVariable, u.Real, u.Effective, u.Saved))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = in.Close()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the process with the ids %+v says %q, %v", u, line, err)
	}
	id, err := Proc().Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A user reaches what the kernel lets the user signal, and nothing else.
func TestReachIsWhatKillAllows(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of other users")
	}
	const user, other = 65534, 65533
	table := Proc()
	var all, want []ID
	for _, u := range []kinship.UIDs{
		{Real: user, Effective: user, Saved: user},
		{Real: other, Effective: other, Saved: other},
		{},
		{Real: user},
		{Saved: user},
		{Effective: user},
		{Real: other, Effective: user, Saved: other},
		{Real: other, Effective: other, Saved: user},
	} {
		id := as(t, u)
		if got, err := table.UIDs(id.PID); err != nil || got != u {
			t.Fatalf("the ids of process %d are %+v, %v, want %+v", id.PID, got, err, u)
		}
		kill := exec.Command("sh", "-c", fmt.Sprintf("kill -0 %d", id.PID))
		kill.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		allowed := kill.Run() == nil
		err := table.Signal(kinship.OfUser(user), id, Probe)
		if (err == nil) != allowed || err != nil && !errors.Is(err, ErrSpared) {
			t.Errorf("ids %+v: the kernel lets the user signal it: %v; berth says %v", u, allowed, err)
		}
		all = append(all, id)
		if allowed {
			want = append(want, id)
		}
		if err := table.Signal(kinship.Authority(), id, Probe); err != nil {
			t.Errorf("ids %+v: authority does not reach it: %v", u, err)
		}
		if err := table.Signal(kinship.Mandate{}, id, Kill); !errors.Is(err, ErrSpared) || !table.Alive(id) {
			t.Errorf("ids %+v: nobody reached it: %v", u, err)
		}
	}
	ended := child(t)
	gone := ID{PID: ended.Process.Pid, Start: 1}
	reached, spared := table.Reach(kinship.OfUser(user), append(all, gone))
	if fmt.Sprint(reached) != fmt.Sprint(want) || len(reached)+len(spared) != len(all) {
		t.Errorf("reached are %v, want %v; spared are %v", reached, want, spared)
	}
}

// A process whose users cannot be read is spared.
func TestUnknownUsersAreSpared(t *testing.T) {
	id := ID{PID: 7, Start: 12345}
	for name, status := range map[string]string{"no line": "Name:\tx\n", "one id": "Uid:\t65534\n", "no numbers": "Uid:\tx\ty\tz\tw\n"} {
		table := written(t, status)
		if err := table.Reaches(kinship.OfUser(65534), id); !errors.Is(err, ErrSpared) {
			t.Errorf("%s: %v", name, err)
		}
		if err := table.Reaches(kinship.Authority(), id); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := written(t, "Uid:\t1\t1\t65534\t1\n").Reaches(kinship.OfUser(65534), ID{PID: 7, Start: 1}); !errors.Is(err, ErrGone) {
		t.Errorf("another process with the same number: %v", err)
	}
}

// written returns a table with one process, which has this status.
func written(t *testing.T, status string) Table {
	t.Helper()
	table := Table{root: t.TempDir()}
	for name, text := range map[string]string{"status": status, "stat": statSeed} {
		path := table.file(7, name)
		if err := errors.Join(os.MkdirAll(path[:strings.LastIndexByte(path, '/')], 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return table
}

func TestDescribeIsBounded(t *testing.T) {
	own, err := Proc().Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	list := Proc().Describe([]ID{own, own, own, own, own, own, own, own, own, own})
	if want := fmt.Sprintf("%d (%s)", own.PID, Proc().Name(own.PID)); len(list) != 9 || list[0] != want || list[8] != "2 more" {
		t.Errorf("described as %q", list)
	}
	if list := Proc().Describe(nil); list != nil {
		t.Errorf("none are described as %q", list)
	}
}
