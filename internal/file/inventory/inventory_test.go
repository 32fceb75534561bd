package inventory_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/file/inventory"
)

var update = flag.Bool("update", false, "write the table of the page")

const page = "../../../docs/guide/operate.md"

// rows returns the table of the page.
func rows() string {
	formats := map[inventory.Kind]string{
		inventory.State: "a file with a checksum", inventory.Journal: "[a journal](../reference/journal.md)", inventory.Lines: "lines", inventory.Folder: "files with checksums",
		inventory.Past: "Prometheus' storage", inventory.Runs: "of its own", inventory.Local: "of its own",
	}
	cares := map[inventory.Care]string{
		inventory.Copied: "yes", inventory.Secret: "with `--secrets`", inventory.Cleaned: "yes; its secrets with `--secrets`", inventory.Bound: "yes; restored on the same machine only", inventory.Left: "no",
	}
	var b strings.Builder
	for _, i := range inventory.Items() {
		version := "-"
		if i.Version > 0 {
			version = fmt.Sprint(i.Version)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", i.Path, i.What, formats[i.Kind], version, cares[i.Care], i.Lost)
	}
	return b.String()
}

// The page about operating berth lists every file of the state folder as the code does.
func TestThePageHasEveryFile(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const head = "| file | what | format | version | in a backup | without it |\n|---|---|---|---|---|---|\n"
	before, rest, found := strings.Cut(string(text), head)
	if !found {
		t.Fatalf("%s has no table that begins with\n%s", page, head)
	}
	is, after, _ := strings.Cut(rest, "\n\n")
	if *update {
		if err := os.WriteFile(page, []byte(before+head+rows()+"\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if is+"\n" != rows() {
		t.Errorf("the table of %s is not that of the code: go test ./internal/file/inventory -update writes it", page)
	}
}

// A name belongs to the item that the table says, and only whole files of it are copied.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		name              string
		copyable, passing bool
	}{
		{"tokens.json", true, false}, {"tokens.json/x", false, false}, {"tokens.json.new", false, true}, {"tokens.jso", false, false}, {"/tokens.json", false, false}, {"./tokens.json", false, false},
		{"journal/log-00000000000000000001", true, false}, {"journal/log-1", false, false}, {"journal/lock", false, true}, {"journal/log-00000000000000000001.tmp", false, true}, {"journal", false, false},
		{"journal/../tokens.json", false, false}, {"jobs/journal/snapshot-00000000000000000001", true, false}, {"jobs/runs/1.0.1", false, false}, {"jobs/environments/0-" + strings.Repeat("a", 64), true, false},
		{"jobs/environments/0-" + strings.Repeat("a", 63) + "/", false, false}, {"audit/audit.log", true, false}, {"audit/audit-00000000000000000009.log", true, false}, {"events/events-000001.jsonl", true, false},
		{"past/recent/wal/00000000", true, false}, {"past/long/01ARZ3NDEKTSV4RRFFQ69G5FAV/chunks/000001", true, false}, {"past/recent/chunks_head/000001", false, true}, {"past/recent/wal/checkpoint.00000001/00000000", true, false},
		{"past/recent/wal/checkpoint.00000001.tmp/00000000", false, true}, {"past/aside/x/y", false, true}, {"services/services.json", true, false}, {"services/front.log", false, true}, {"berth.sock.lock", false, true}, {"mps/x", false, false}, {"", false, false},
	} {
		if got := inventory.Copyable(c.name); got != c.copyable {
			t.Errorf("%q is copyable: %v", c.name, got)
		}
		if got := inventory.Passing(c.name); got != c.passing {
			t.Errorf("%q comes and goes: %v", c.name, got)
		}
	}
}
