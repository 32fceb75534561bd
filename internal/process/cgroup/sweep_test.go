package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What is left of groups that nobody removed goes; what is used, new or of somebody else
// stays.
func TestSweep(t *testing.T) {
	now := time.Now()
	for kind, mount := range map[string]string{
		"v2": "40 30 0:35 / TOP rw - cgroup2 none rw\n", "v1": "30 20 0:26 / TOP rw - cgroup cgroup rw,memory\n",
	} {
		root := tree(t, map[string]string{"user.slice/x/berth-job-3.0.1/inner/process": "", "berth-job-9/process": "", "file": ""})
		for _, folder := range []string{"berth-job-1.0.1", "user.slice/x/berth-job-2.0.1-0a", "berth-job-new", "other-1", "berth-jobless"} {
			if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
				t.Fatal(err)
			}
			made := now.Add(-time.Hour)
			if strings.HasSuffix(folder, "new") {
				made = now
			}
			if err := os.Chtimes(filepath.Join(root, folder), made, made); err != nil {
				t.Fatal(err)
			}
		}
		for _, used := range []string{"user.slice/x/berth-job-3.0.1", "berth-job-9"} {
			if err := os.Chtimes(filepath.Join(root, used), now.Add(-time.Hour), now.Add(-time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		sweep(t.Context(), strings.ReplaceAll(mount, "TOP", root), "berth-job-", now.Add(-time.Minute))
		var left []string
		for _, folder := range []string{"berth-job-1.0.1", "user.slice/x/berth-job-2.0.1-0a", "user.slice/x/berth-job-3.0.1/inner", "berth-job-9", "berth-job-new", "other-1", "berth-jobless"} {
			if _, err := os.Stat(filepath.Join(root, folder)); err == nil {
				left = append(left, folder)
			}
		}
		if want := []string{"user.slice/x/berth-job-3.0.1/inner", "berth-job-9", "berth-job-new", "other-1", "berth-jobless"}; !slices.Equal(left, want) {
			t.Errorf("%s: %q are left, want %q", kind, left, want)
		}
	}
}

// A group that is used again is as good as new.
func TestSweepLeavesAGroupThatIsUsedAgain(t *testing.T) {
	root := tree(t, map[string]string{"a/x": ""})
	mounts := "40 30 0:35 / " + root + " rw - cgroup2 none rw\n"
	folder, now := filepath.Join(root, "a", "berth-job-1.0.1"), time.Now()
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(folder, now.Add(-time.Hour), now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got, err := makeGroup(mounts, "0::/a\n", filepath.Base(folder), Limits{}); err != nil || !slices.Equal(got, Group{folder}) {
		t.Fatalf("%v, %v", got, err)
	}
	sweep(t.Context(), mounts, "berth-job-", now.Add(-time.Minute))
	if _, err := os.Stat(folder); err != nil {
		t.Error(err)
	}
}
