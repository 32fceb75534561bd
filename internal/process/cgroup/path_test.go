package cgroup

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMounts(t *testing.T) {
	const (
		v1      = "30 20 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
		hybrid  = "39 30 0:35 / /sys/fs/cgroup/unified rw,relatime shared:5 - cgroup2 cgroup2 rw\n"
		subtree = "40 30 0:35 /system.slice/docker-a.scope /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
		outside = "41 30 0:35 /../.. /host/cgroup rw - cgroup2 cgroup2 rw\n"
		spaced  = `42 30 0:35 / /mnt/control\040groups rw - cgroup2 none rw` + "\n"
	)
	for _, test := range []struct{ text, point, root string }{
		{v1 + hybrid, "/sys/fs/cgroup/unified", "/"},
		{subtree + hybrid, "/sys/fs/cgroup/unified", "/"},
		{subtree + outside, "/sys/fs/cgroup", "/system.slice/docker-a.scope"},
		{spaced, "/mnt/control groups", "/"},
		{v1 + outside + "nonsense\n", "", ""},
	} {
		got, err := parseMounts(test.text)
		if got != (mount{test.point, test.root}) || (err == nil) != (test.point != "") {
			t.Errorf("%q: %+v, %v", test.text, got, err)
		}
	}
}

func TestFolderOfAProcess(t *testing.T) {
	whole, part := mount{"/c", "/"}, mount{"/c", "/a.slice"}
	for _, test := range []struct {
		in   mount
		text string
		want string
	}{
		{whole, "4:memory:/x\n0::/a.slice/b.scope\n", "/c/a.slice/b.scope"},
		{whole, "0::/\n", "/c"},
		{part, "0::/a.slice/b.scope\n", "/c/b.scope"},
		{part, "0::/a.slice\n", "/c"},
		{part, "0::/a.slicer\n", ""},
		{part, "0::/other\n", ""},
		{whole, "0::/../outside\n", ""},
		{whole, "0::/..\n", ""},
		{whole, "4:memory:/x\n", ""},
		{whole, "", ""},
	} {
		got, err := test.in.folder(test.text)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%+v, %q: %q, %v, want %q", test.in, test.text, got, err, test.want)
		}
	}
}

// Every answer of the kernel that people meet says what to do.
func TestExplain(t *testing.T) {
	for errno, want := range map[error]string{
		unix.EPERM: "CAP_BPF", unix.EROFS: "read-only", unix.EBUSY: "another unit", unix.EOPNOTSUPP: "another unit", unix.EINVAL: "CONFIG_CGROUP_BPF",
	} {
		if err := Explain(errno); !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}
