package world

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every defect of the folder defects can be put back into the tree as it is, by itself and
// together with the others, and says who mended it and which check should see it.
func TestDefectsCanBePutBack(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git applies the patches, and is not there")
	}
	patches, err := filepath.Glob("defects/*.patch")
	if err != nil || len(patches) < 40 {
		t.Fatalf("there are %d patches: %v", len(patches), err)
	}
	// The files that they change are in a folder that belongs to no repository.
	folder := t.TempDir()
	var all []string
	for _, path := range patches {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^--- a/(.*)$`).FindAllStringSubmatch(string(text), -1) {
			copyInto(t, folder, m[1])
		}
		absolute, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".patch")
		if all = append(all, absolute); name == "000-switch" {
			continue
		}
		about := regexp.MustCompile(`(?m)^Mended by [0-9a-f]{8}\. Seen by: (\w+)[^\n]*\.$`).FindStringSubmatch(string(text))
		if about == nil || about[1] != "none" && Checks[about[1]] == "" || !strings.Contains(string(text), `defect("`+name+`")`) {
			t.Errorf("%s does not say who mended it, which check sees it, or what it is called", path)
		}
	}
	apply := func(patches ...string) {
		command := exec.Command(git, append([]string{"apply", "--check"}, patches...)...)
		command.Dir, command.Env = folder, append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(folder))
		if told, err := command.CombinedOutput(); err != nil {
			t.Errorf("%d patches: %v\n%s", len(patches), err, told)
		}
	}
	apply(all...)
	for _, patch := range all {
		apply(patch)
	}
}

// copyInto copies a file of the repository to its place in another folder.
func copyInto(t *testing.T, folder, path string) {
	text, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(folder, path)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
