package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The program is what it was without a mutant, and with each of them it returns what stands
// behind the changed function. What no test reaches is not changed.
func TestEachMutantIsWhatTheTableSays(t *testing.T) {
	const program = "testdata/kinds/main.go"
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var want, reached, place []string
	for n, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "\tfunc() any {") {
			_, comment, _ := strings.Cut(line, "//")
			want, place = append(want, strings.TrimSpace(comment)), append(place, fmt.Sprintf("%s:%d", program, n+1))
			reached = append(reached, fmt.Sprintf("github.com/berth-gpu/berth/test/mutants/%s:%d.1,%d.1 1 1", program, n+1, n+2))
		}
	}
	out := t.TempDir()
	coverage := filepath.Join(out, "coverage")
	if err := os.WriteFile(coverage, []byte("mode: set\n"+strings.Join(reached, "\n")), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := run(coverage, out, 1000, 1, []string{"./testdata/kinds"}); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"-o", out + "/unchanged"}, {"-o", out + "/changed", "-overlay", out + "/overlay.json"}} {
		if said, err := exec.Command("go", append(append([]string{"build", "-trimpath"}, flags...), "./testdata/kinds")...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
	}
	returned := func(program, mutant string) []string {
		command := exec.Command(filepath.Join(out, program))
		command.Env = append(os.Environ(), "BERTH_MUTANT="+mutant)
		said, err := command.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(said)), "\n")
	}
	table, err := os.ReadFile(filepath.Join(out, "mutants.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	plain, got := returned("unchanged", ""), make([][]string, len(want))
	if without := returned("changed", "0"); len(plain) != len(want) || !slices.Equal(without, plain) {
		t.Fatalf("without a mutant the functions return %v, want %v", without, plain)
	}
	for _, row := range strings.Split(strings.TrimSpace(string(table)), "\n")[1:] {
		column := strings.Split(row, "\t")
		at, with := slices.Index(place, column[2]), returned("changed", column[0])
		if at < 0 {
			t.Fatalf("no test reaches this: %s", row)
		}
		got[at] = append(got[at], column[3]+": "+with[at])
		with[at] = plain[at]
		if !slices.Equal(with, plain) {
			t.Errorf("%s: something else changed", row)
		}
	}
	for i := range want {
		if found := strings.Join(got[i], "; "); found != want[i] {
			t.Errorf("%s: with its mutants it returns %q, want %q", place[i], found, want[i])
		}
	}
}

func TestDraw(t *testing.T) {
	all := make([]point, 50)
	for i := range all {
		all[i].is = fmt.Sprintf("%02d", i)
	}
	drawn := func(number int, seed uint64) (names []string) {
		for _, m := range draw(all, number, seed) {
			names = append(names, m.is)
		}
		return names
	}
	some := drawn(10, 7)
	if len(some) != 10 || !slices.IsSorted(some) || len(slices.Compact(slices.Clone(some))) != 10 {
		t.Errorf("10 of 50 are %v", some)
	}
	if !slices.Equal(some, drawn(10, 7)) || slices.Equal(some, drawn(10, 8)) {
		t.Error("the seed does not decide")
	}
	if len(drawn(100, 7)) != 50 {
		t.Error("100 of 50 are not all")
	}
}
